"""Sums over ranks whose roundings do not depend on who was first: of any tensor, or as a hook of DDP.

An all-reduce adds the values of three and more ranks in an order that differs from place to place. Here they
are added in the order in which one rank adds those of its microbatches (`batch_slices`). It moves as many
bytes.

Three ranks with gradients of three places, a b c on rank 0, A B C on rank 1, α β γ on rank 2:

    1. send     place r of everybody travels to rank r       rank 0 gets a A α
    2. add      halves of the ranks by themselves            a + (A + α)
    3. gather   everybody gets every place again

The hook waits for stage 1, since every rank must begin the gathers in the same order.
"""

import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed import GradBucket  # type: ignore[attr-defined]


@dataclass
class AllToAllTime:
    """The time that the last backward pass waited for its all-to-alls."""

    seconds: float = 0.0


def needs_order(num_ranks: int, device_type: str) -> bool:
    """Return whether sums depend on the order of ranks; two ranks' values add up to the same in any."""
    return device_type == "cpu" and num_ranks > 2


def ordered_sum(mine: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Add up the ranks' tensors of one axis; every rank gets the sum."""
    share = _sum_of_share(mine, group)
    gathered = share.new_empty(len(share) * dist.get_world_size(group))
    dist.all_gather_single(gathered, share, group=group)
    return gathered[: len(mine)]


def ordered_sum_hook(took: AllToAllTime, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """Serve `register_comm_hook`: data parallelism then has sums where it would have means."""
    mine, started = bucket.buffer(), time.perf_counter()
    share = _sum_of_share(mine, None)
    seconds = time.perf_counter() - started
    took.seconds = seconds if bucket.index() == 0 else took.seconds + seconds
    everything = share.new_empty(len(share) * dist.get_world_size())
    work = dist.all_gather_single(everything, share, async_op=True)

    def back(gathered: torch.futures.Future[object]) -> Tensor:
        # raises what the gather raised: without it a rank would learn from its own gradients alone
        gathered.value()
        return mine.copy_(everything[: len(mine)])

    sums: torch.futures.Future[Tensor] = work.get_future().then(back)
    return sums


def _sum_of_share(mine: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """Return the sums of this rank's places: stages 1 and 2."""
    num_ranks = dist.get_world_size(group)
    padded = F.pad(mine, (0, -len(mine) % num_ranks))
    received = torch.empty_like(padded)
    dist.all_to_all_single(received, padded, group=group)
    return _sum_by_halves(received.view(num_ranks, -1))


def _sum_by_halves(values: Tensor) -> Tensor:
    """Add up one row for each rank, in the order of the tree in which one rank adds gradients."""
    half = len(values) // 2
    return _sum_by_halves(values[:half]) + _sum_by_halves(values[half:]) if half else values[0]
