"""Gradients of several ranks are added half by half, wherever in a bucket they lie."""

import os
import re
import time
from collections.abc import Callable
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.rank_pool import RankFailure, RankPools
from tpnet_dist.distributed.ordered_sum import AllToAllTime, ordered_sum, ordered_sum_hook
from tpnet_dist.distributed.world import World

GRADIENTS = torch.tensor(
    [
        [1e8, 1.0, 1e8, 3.0, 1.0],
        [1.0, 1e8, -1e8, 5.0, 1e8],
        [-1e8, 1.0, 1.0, 7.0, 1.0],
        [1.0, -1e8, 1.0, 9.0, -1e8],
    ]
)
"""Of each rank, for five places: more than ranks, so some hold padding. Other orders give other means."""


LATE = 1.0


class Weights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(5))

    def forward(self, gradient: torch.Tensor) -> torch.Tensor:
        return (self.weight * gradient).sum()


def sum_on_rank(world: World) -> torch.Tensor:
    scorer = DistributedDataParallel(Weights())
    took = AllToAllTime()
    scorer.register_comm_hook(took, ordered_sum_hook)
    is_late = world.rank == world.num_ranks - 1
    if is_late:
        time.sleep(LATE)
    scorer(GRADIENTS[world.rank]).backward()
    gradient = scorer.module.weight.grad
    assert gradient is not None
    # the others have waited for the late one, and say so
    assert is_late or took.seconds > LATE / 2
    assert torch.equal(ordered_sum(GRADIENTS[world.rank], dist.group.WORLD), gradient)
    return gradient


def test_sums_are_those_of_halves(rank_pools: RankPools) -> None:
    one, two, three, four = GRADIENTS
    by_ranks = {3: one + (two + three), 4: (one + two) + (three + four)}
    assert by_ranks[4].tolist() == [0.0, 0.0, 2.0, 24.0, 0.0]
    assert (((one + two) + three) + four).tolist() != by_ranks[4].tolist()
    assert ((one + two) + three).tolist() != by_ranks[3].tolist()
    for num_ranks, wanted in by_ranks.items():
        for gradient in rank_pools[num_ranks].run(sum_on_rank):
            assert torch.equal(gradient, wanted)


def die_after_the_deal(world: World) -> None:
    """On the last rank; the others go on to a gather that cannot end."""
    scorer = DistributedDataParallel(Weights())
    scorer.register_comm_hook(AllToAllTime(), ordered_sum_hook)
    all_to_all: Callable[..., object] = dist.all_to_all_single

    def exchange_and_die(*tensors: torch.Tensor, group: None) -> None:
        all_to_all(*tensors, group=group)
        os._exit(3)

    with patch.object(dist, "all_to_all_single", exchange_and_die if world.rank == 3 else all_to_all):
        scorer(GRADIENTS[world.rank]).backward()


def test_who_never_got_the_others_gradients_does_not_go_on_with_his_own(rank_pools: RankPools) -> None:
    with pytest.raises(RankFailure) as failure:
        rank_pools[4].run(die_after_the_deal)
    assert "rank 3 of 4 ended with exit code 3" in str(failure.value)
    # a rank whose neighbours in the ring still live may go on waiting
    raised = {int(rank) for rank in re.findall(r"rank (\d) of 4 raised", str(failure.value))}
    waiting = {
        int(rank)
        for ranks in re.findall(r"still at work: ranks \[(.*)\]", str(failure.value))
        for rank in ranks.split(", ")
    }
    assert raised and raised | waiting == {0, 1, 2}
