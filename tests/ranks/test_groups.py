"""A group of equal times, recorded in pieces, equals the same events recorded as one batch."""

import pytest
import torch
from torch import Tensor

from tests.rank_pool import RankPools
from tpnet_dist.memory.groups import record_group
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.plan import BatchEvents
from tpnet_dist.memory.walks import Walk, WalkKind
from tpnet_dist.ranks.exchange import Exchange
from tpnet_dist.ranks.world import World

NUM_NODES = 12
GROUP = 40


def events(count: int, time: float, seed: int) -> BatchEvents:
    generator = torch.Generator().manual_seed(seed)
    src, dst = (torch.randint(0, NUM_NODES, (count,), generator=generator) for _ in range(2))
    return BatchEvents(src, dst, torch.full((count,), time, dtype=torch.float64))


def record(memory: Memory, batch: BatchEvents) -> None:
    plan = memory.plan(batch)
    memory.record(plan, memory.fetch(plan))


def rows_after(kind: WalkKind, exchange: Exchange | None, piece_size: int | None) -> Tensor:
    """Two small batches, the group, in pieces or as one batch, and a batch after it; all rows at the end."""
    memory = Memory(NUM_NODES, Walk(kind, 3, 0.01), 8, exchange=exchange, dtype=torch.float64)
    record(memory, events(5, 0.0, seed=1))
    record(memory, events(5, 30.0, seed=2))
    group = events(GROUP, 50.0, seed=3)
    if piece_size is None:
        record(memory, group)
    else:
        rows = [slice(first, first + piece_size) for first in range(0, GROUP, piece_size)]
        record_group(memory, [BatchEvents(group.src_B[r], group.dst_B[r], group.time_B[r]) for r in rows])
    record(memory, events(5, 80.0, seed=4))
    nodes = torch.arange(NUM_NODES)
    nothing = BatchEvents(nodes[:0], nodes[:0], torch.empty(0, dtype=torch.float64))
    fetched = memory.fetch(memory.plan(nothing, nodes, record=False))
    return fetched.read(nodes, torch.full((NUM_NODES,), 90.0, dtype=torch.float64))


def rows_on_rank(world: World, kind: WalkKind, piece_size: int | None) -> Tensor:
    return rows_after(kind, world.new_exchange(), piece_size)


@pytest.mark.parametrize("kind", ["decay", "count", "transition"])
@pytest.mark.parametrize("piece_size", [40, 13, 1])
def test_pieces_equal_one_batch(kind: WalkKind, piece_size: int) -> None:
    torch.testing.assert_close(
        rows_after(kind, None, piece_size), rows_after(kind, None, None), rtol=1e-12, atol=0
    )


def test_empty_pieces_change_nothing() -> None:
    group, nothing = events(GROUP, 50.0, seed=3), events(0, 50.0, seed=3)
    with_gaps, plain = (Memory(NUM_NODES, Walk("decay", 3, 0.01), 8) for _ in range(2))
    record_group(with_gaps, [nothing, group, nothing])
    record_group(with_gaps, [nothing])
    record_group(plain, [group])
    for memory in (with_gaps, plain):
        record(memory, events(5, 80.0, seed=4))
    assert torch.equal(with_gaps.table.rows_NLD, plain.table.rows_NLD)


@pytest.mark.parametrize("kind", ["decay", "count", "transition"])
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
def test_pieces_on_many_ranks_equal_one_batch_on_one(
    rank_pools: RankPools, kind: WalkKind, num_ranks: int
) -> None:
    wanted = rows_after(kind, None, None)
    for rows in rank_pools[num_ranks].run(rows_on_rank, kind, 3):
        torch.testing.assert_close(rows, wanted, rtol=1e-12, atol=0)


def test_a_snapshot_before_a_group_brings_its_moment_back() -> None:
    memory = Memory(NUM_NODES, Walk("transition", 3, 0.01), 8)
    record(memory, events(5, 0.0, seed=1))
    before = {name: tensor.clone() for name, tensor in memory.state_dict().items()}
    memory.snapshot()
    record_group(memory, [events(20, 50.0, seed=3), events(20, 50.0, seed=4)])
    memory.restore()
    for name, tensor in memory.state_dict().items():
        assert torch.equal(tensor, before[name]), name
