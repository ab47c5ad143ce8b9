"""Means over ranks whose roundings do not depend on who was first: of any tensor, or as a hook of DDP.

An all-reduce adds four ranks' values in an order that differs from place to place. Here neighbours are added
first, then pairs of them: the order in which one rank adds the portions of a batch (`portions`). It moves as
many bytes.

Four ranks with gradients of four places, a b c d on rank 0, A B C D on rank 1 and so on:

    1. deal     place r of everybody travels to rank r       rank 0 gets a A α 𝔞
    2. add      pair by pair                                 (a + A) + (α + 𝔞)
    3. gather   everybody gets every place again

The hook waits for the deal, since every rank must begin the gathers in the same order.
"""

import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed import GradBucket  # type: ignore[attr-defined]


@dataclass
class DealTime:
    """How long the deals of the last backward pass were waited for."""

    seconds: float = 0.0


def needs_order(num_ranks: int, device_type: str) -> bool:
    """Two ranks' values add up to the same in any order, and other numbers than 2, 4, 8 … have no pairs."""
    return device_type == "cpu" and num_ranks > 2 and num_ranks.bit_count() == 1


def ordered_mean(mine: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Of a tensor of one axis."""
    share = _mean_of_share(mine, group)
    gathered = share.new_empty(len(share) * dist.get_world_size(group))
    dist.all_gather_single(gathered, share, group=group)
    return gathered[: len(mine)]


def ordered_mean_hook(took: DealTime, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """For `register_comm_hook`."""
    mine, started = bucket.buffer(), time.perf_counter()
    share = _mean_of_share(mine, None)
    seconds = time.perf_counter() - started
    took.seconds = seconds if bucket.index() == 0 else took.seconds + seconds
    everything = share.new_empty(len(share) * dist.get_world_size())
    work = dist.all_gather_single(everything, share, async_op=True)

    def back(gathered: torch.futures.Future[object]) -> Tensor:
        # raises what the gather raised: without it a rank would learn from its own gradients alone
        gathered.value()
        return mine.copy_(everything[: len(mine)])

    means: torch.futures.Future[Tensor] = work.get_future().then(back)
    return means


def _mean_of_share(mine: Tensor, group: dist.ProcessGroup | None) -> Tensor:
    """Stages 1 and 2: the means of this rank's places."""
    num_ranks = dist.get_world_size(group)
    padded = F.pad(mine, (0, -len(mine) % num_ranks))
    dealt = torch.empty_like(padded)
    dist.all_to_all_single(dealt, padded, group=group)
    sums_PX = dealt.view(num_ranks, -1)
    while len(sums_PX) > 1:
        sums_PX = sums_PX[0::2] + sums_PX[1::2]
    return sums_PX[0].div_(num_ranks)
