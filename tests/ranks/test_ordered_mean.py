"""Gradients of several ranks are added pair by pair, wherever in a bucket they lie."""

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.rank_pool import RankPools
from tpnet_dist.ranks.ordered_mean import ordered_mean
from tpnet_dist.ranks.world import World

GRADIENTS = torch.tensor(
    [
        [1e8, 1.0, 1e8, 3.0, 1.0],
        [1.0, 1e8, -1e8, 5.0, 1e8],
        [-1e8, 1.0, 1.0, 7.0, 1.0],
        [1.0, -1e8, 1.0, 9.0, -1e8],
    ]
)
"""Of each rank, for five places: more than ranks, so some hold padding. Other orders give other means."""


class Weights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(5))

    def forward(self, gradient: torch.Tensor) -> torch.Tensor:
        return (self.weight * gradient).sum()


def mean_on_rank(world: World) -> torch.Tensor:
    scorer = DistributedDataParallel(Weights())
    scorer.register_comm_hook(None, ordered_mean)
    scorer(GRADIENTS[world.rank]).backward()
    gradient = scorer.module.weight.grad
    assert gradient is not None
    return gradient


def test_means_are_those_of_sums_by_pairs(rank_pools: RankPools) -> None:
    one, two, three, four = GRADIENTS
    wanted = ((one + two) + (three + four)) / 4
    assert wanted.tolist() == [0.0, 0.0, 0.5, 6.0, 0.0]
    assert (((one + two) + three) + four).div(4).tolist() != wanted.tolist()
    for gradient in rank_pools[4].run(mean_on_rank):
        assert torch.equal(gradient, wanted)
