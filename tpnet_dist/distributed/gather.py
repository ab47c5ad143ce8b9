"""Results of all ranks, on every rank."""

import torch
import torch.distributed as dist
from torch import Tensor


def gather_varied(values: Tensor, group: dist.ProcessGroup | None = None) -> list[Tensor]:
    """Return each rank's tensor, in the order of ranks; tensors may differ in their first dimension.

    `group`: of all ranks, for what the default group does not take, as NCCL does not take the host's.

        rank 0 has [1 2 3], rank 1 has [4]: both get [1 2 3] [4]

    1. sizes    every rank tells how many it has
    2. values   padded to the largest, since a gather wants equal sizes; the padding is cut off
    """
    num_ranks = dist.get_world_size()
    # 1. sizes
    mine = torch.tensor([len(values)], device=values.device)
    sizes = [torch.empty_like(mine) for _ in range(num_ranks)]
    dist.all_gather(sizes, mine, group=group)
    counts = torch.cat(sizes).tolist()
    # 2. values
    padded = values.new_zeros(max(counts), *values.shape[1:])
    padded[: len(values)] = values
    gathered = [torch.empty_like(padded) for _ in range(num_ranks)]
    dist.all_gather(gathered, padded, group=group)
    return [part[:count] for part, count in zip(gathered, counts, strict=True)]


def sum_over_ranks(values: Tensor) -> Tensor:
    """Add up the values of all ranks, in place, and return them."""
    dist.all_reduce(values)
    return values
