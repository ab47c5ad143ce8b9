"""Ranks know who they are and refuse to start on different data or settings."""

from itertools import pairwise

import pytest

from tests.rank_pool import RankFailure, RankPools
from tpnet_dist.events.batch_plan import slice_of
from tpnet_dist.ranks.blocks import even_borders
from tpnet_dist.ranks.world import World, join_world


def agree(world: World, odd_rank: int | None) -> None:
    width = 110 if world.rank != odd_rank else 120
    world.require_agreement({"memory.width": width, "data.log_id": "abc"})


def test_ranks_with_the_same_facts_start(rank_pools: RankPools) -> None:
    assert rank_pools[4].run(agree, None) == [None] * 4


def test_a_rank_with_another_setting_is_named(rank_pools: RankPools) -> None:
    sentence = "rank 2 has memory.width = 120 where rank 0 has 110; start all ranks with the same"
    with pytest.raises(RankFailure, match=sentence):
        rank_pools[4].run(agree, 2)


def test_a_plain_process_is_a_world_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with join_world() as world:
        assert (world.rank, world.num_ranks) == (0, 1)
        world.require_agreement({"data.log_id": "abc"})
        exchange = world.new_exchange()
        assert exchange.route([3]).recv_counts == [3]


@pytest.mark.parametrize("num_ranks", range(1, 8))
def test_the_memory_cuts_slices_as_the_batch_plan_does(num_ranks: int) -> None:
    for count in (0, 1, 5, 200, 201):
        borders = even_borders(count, num_ranks)
        slices = [slice_of(0, count, rank, num_ranks) for rank in range(num_ranks)]
        assert slices == list(pairwise(borders))
