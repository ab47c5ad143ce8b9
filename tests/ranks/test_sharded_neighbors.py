"""Neighbour look-ups spread over ranks give what one index of all nodes gives."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from benchmarks.rank_pool import RankPools
from tpnet_dist.distributed.blocks import Blocks
from tpnet_dist.distributed.exchange import LocalExchange
from tpnet_dist.distributed.world import World
from tpnet_dist.errors import InputError
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.neighbors.build import EventChunk, build_neighbor_index
from tpnet_dist.neighbors.index import NeighborIndex, NeighborLookup, Neighbors
from tpnet_dist.neighbors.samplers import SAMPLERS, Queries
from tpnet_dist.neighbors.sharded import ShardedNeighbors

NUM_NODES, NUM_EVENTS, COUNT = 11, 300, 5
KEY = SampleKey(seed=3, epoch=1)


def index_of(first: int, stop: int) -> NeighborIndex:
    def chunks() -> Iterator[EventChunk]:
        draw = np.random.default_rng(0)
        src, dst = draw.integers(0, NUM_NODES - 1, (2, NUM_EVENTS), dtype=np.int32)
        yield EventChunk(src, dst, np.sort(draw.integers(0, 90, NUM_EVENTS)), np.arange(NUM_EVENTS))

    return build_neighbor_index(chunks, first, stop).weighted(0.05)


def queries(rank: int, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Each rank asks something else; the last node has no history."""
    generator = torch.Generator().manual_seed(rank)
    node = torch.randint(0, NUM_NODES, (count,), generator=generator)
    before = torch.randint(0, NUM_EVENTS + 1, (count,), generator=generator)
    return node, before, torch.arange(count) + 1000 * rank


def sample_all(neighbors: NeighborLookup, rank: int, count: int) -> list[Neighbors]:
    node, before, number = queries(rank, count if rank != 1 else 0)
    asked = [Queries(node, before, number), Queries(node, before // 4, number, by_time=True)]
    samplers = SAMPLERS.values()
    return [neighbors.sample(each, sampler, count=COUNT, key=KEY) for each in asked for sampler in samplers]


def ask(world: World, count: int) -> list[Neighbors]:
    index = index_of(*Blocks(NUM_NODES, world.num_ranks).range_of(world.rank))
    neighbors = ShardedNeighbors(index, NUM_NODES, world.new_exchange())
    return sample_all(neighbors, world.rank, count)


def assert_equal(found: Neighbors, wanted: Neighbors) -> None:
    for name in ("ids_BM", "events_BM", "times_BM", "mask_BM"):
        assert torch.equal(getattr(found, name), getattr(wanted, name)), name


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_ranks_answer_what_one_index_answers(rank_pools: RankPools, num_ranks: int) -> None:
    """Rank 1 asks nothing and still takes part."""
    whole = index_of(0, NUM_NODES)
    for rank, answers in enumerate(rank_pools[num_ranks].run(ask, 40)):
        for found, wanted in zip(answers, sample_all(whole, rank, 40), strict=True):
            assert_equal(found, wanted)


def ask_for_strange_nodes(world: World, node: int) -> tuple[str, int]:
    index = index_of(*Blocks(NUM_NODES, world.num_ranks).range_of(world.rank))
    neighbors = ShardedNeighbors(index, NUM_NODES, world.new_exchange())
    with pytest.raises(InputError) as refused:
        neighbors.recent(torch.tensor([0, node]), torch.tensor([5, 5]), count=COUNT)
    return str(refused.value), neighbors.exchange.stats.collectives


@pytest.mark.parametrize("node", [-1, NUM_NODES])
def test_nodes_that_nobody_owns_are_refused_before_any_collective(rank_pools: RankPools, node: int) -> None:
    for sentence, collectives in rank_pools[2].run(ask_for_strange_nodes, node):
        assert f"neighbour query 1: id {node} is not within 0…10" in sentence
        assert collectives == 0


def test_one_process_needs_no_group() -> None:
    whole = index_of(0, NUM_NODES)
    node, before, _ = queries(0, 40)
    found = ShardedNeighbors(whole, NUM_NODES, LocalExchange()).recent(node, before, count=COUNT)
    assert_equal(found, whole.recent(node, before, count=COUNT))


def longest_on_rank(world: World, count: int) -> torch.Tensor:
    index = index_of(*Blocks(NUM_NODES, world.num_ranks).range_of(world.rank))
    neighbors = ShardedNeighbors(index, NUM_NODES, world.new_exchange())
    node, before, number = queries(world.rank, count if world.rank != 1 else 0)
    return neighbors.longest(Queries(node, before), number % 5, 6)


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_all_ranks_know_the_longest_history_that_any_asked_about(
    rank_pools: RankPools, num_ranks: int
) -> None:
    """One group has no query on any rank."""
    count = 20
    found = rank_pools[num_ranks].run(longest_on_rank, count)
    index, longest = index_of(0, NUM_NODES), [0] * 6
    for rank in range(num_ranks):
        if rank != 1:
            node, before, number = queries(rank, count)
            sizes = index.recent(node, before, count=2 * NUM_EVENTS).mask_BM.sum(1)
            for group, size in zip((number % 5).tolist(), sizes.tolist(), strict=True):
                longest[group] = max(longest[group], size)
    assert [each.tolist() for each in found] == [longest] * num_ranks
    assert len(set(longest)) > 2
