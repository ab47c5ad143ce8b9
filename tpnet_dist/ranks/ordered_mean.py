"""Means over ranks whose roundings do not depend on who was first, as a hook of data parallelism.

An all-reduce adds four ranks' values in an order that differs from place to place. Here neighbours are added
first, then pairs of them: the order in which one rank adds the portions of a batch (`portions`). It moves as
many bytes.

Four ranks with gradients of four places, a b c d on rank 0, A B C D on rank 1 and so on:

    1. deal     place r of everybody travels to rank r       rank 0 gets a A α 𝔞
    2. add      pair by pair                                 (a + A) + (α + 𝔞)
    3. gather   everybody gets every place again
"""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import GradBucket  # type: ignore[attr-defined]


def is_power_of_two(number: int) -> bool:
    return number > 0 and number.bit_count() == 1


def ordered_mean(_: object, bucket: GradBucket) -> torch.futures.Future[Tensor]:
    """The hook; for 2, 4, 8 … ranks."""
    mine, num_ranks = bucket.buffer(), dist.get_world_size()
    # 1. deal
    missing = -len(mine) % num_ranks
    padded = torch.nn.functional.pad(mine, (0, missing))
    dealt = torch.empty_like(padded)
    dist.all_to_all_single(dealt, padded)
    # 2. add
    sums_PX = dealt.view(num_ranks, -1)
    while len(sums_PX) > 1:
        sums_PX = sums_PX[0::2] + sums_PX[1::2]
    # 3. gather
    work = dist.all_gather_single(padded, sums_PX[0].div_(num_ranks), async_op=True)
    gathered: torch.futures.Future[Tensor] = work.get_future().then(lambda _: mine.copy_(padded[: len(mine)]))
    return gathered
