"""Means over ranks whose roundings do not depend on who was first, as a hook of data parallelism.

An all-reduce adds four ranks' values in an order that differs from place to place. Here neighbours are added
first, then pairs of them: the order in which one rank adds the portions of a batch (`portions`). It moves as
many bytes.

Four ranks with gradients of four places, a b c d on rank 0, A B C D on rank 1 and so on:

    1. deal     place r of everybody travels to rank r       rank 0 gets a A α 𝔞
    2. add      pair by pair                                 (a + A) + (α + 𝔞)
    3. gather   everybody gets every place again

The deal is waited for, since every rank must begin the gathers in the same order.
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


def ordered_mean(took: DealTime, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """The hook; for 2, 4, 8 … ranks."""
    mine, num_ranks = bucket.buffer(), dist.get_world_size()
    # 1. deal
    padded = F.pad(mine, (0, -len(mine) % num_ranks))
    dealt = torch.empty_like(padded)
    started = time.perf_counter()
    dist.all_to_all_single(dealt, padded)
    seconds = time.perf_counter() - started
    took.seconds = seconds if bucket.index() == 0 else took.seconds + seconds
    # 2. add
    sums_PX = dealt.view(num_ranks, -1)
    while len(sums_PX) > 1:
        sums_PX = sums_PX[0::2] + sums_PX[1::2]
    # 3. gather
    work = dist.all_gather_single(padded, sums_PX[0].div_(num_ranks), async_op=True)

    def back(gathered: torch.futures.Future[object]) -> Tensor:
        # raises what the gather raised: without it a rank would learn from its own gradients alone
        gathered.value()
        return mine.copy_(padded[: len(mine)])

    means: torch.futures.Future[Tensor] = work.get_future().then(back)
    return means
