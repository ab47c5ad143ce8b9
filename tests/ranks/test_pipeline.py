"""However deep the pipeline runs ahead, not one bit of what it yields changes."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.rank_pool import RankPools
from tpnet_dist.batches.link_batches import rows_ahead
from tpnet_dist.distributed.exchange import Exchange
from tpnet_dist.distributed.world import World
from tpnet_dist.memory.event_run import BatchEvents
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.pipeline import MemoryRequest, fetch_ahead
from tpnet_dist.memory.walks import Walk

NUM_NODES, NUM_BATCHES, BATCH = 30, 12, 7


def requests() -> Iterator[MemoryRequest[int]]:
    """Batches; every third one is the last piece of a group, the piece before it is only looked at."""
    generator = torch.Generator().manual_seed(0)
    now, waiting = 0.0, []
    for number in range(NUM_BATCHES):
        src, dst, needed = (torch.randint(0, NUM_NODES, (BATCH,), generator=generator) for _ in range(3))
        waiting.append(BatchEvents(src, dst, torch.full((BATCH,), now, dtype=torch.float64)))
        nodes = torch.cat([src, dst, needed])
        if number % 3 == 1:
            yield MemoryRequest(nodes, BatchEvents.none(), number)
            continue
        yield MemoryRequest(nodes, BatchEvents.joined(waiting), number)
        waiting, now = [], now + 40.0


def everything_fetched(exchange: Exchange | None, prefetch: int) -> list[tuple[int, Tensor, Tensor]]:
    torch.set_num_threads(1)
    memory = Memory(NUM_NODES, Walk("decay", 3, 1e-3), 16, exchange=exchange)
    found = [
        (number, fetched.nodes_U, fetched.read(fetched.nodes_U, fetched.clock_U + 1000))
        for number, fetched in fetch_ahead(memory, requests(), prefetch=prefetch)
    ]
    return [*found, (-1, torch.empty(0), memory.table.rows_NLD.clone())]


def on_rank(world: World, prefetch: int) -> list[tuple[int, Tensor, Tensor]]:
    return everything_fetched(world.new_exchange(), prefetch)


def assert_identical(one: list[tuple[int, Tensor, Tensor]], other: list[tuple[int, Tensor, Tensor]]) -> None:
    assert [number for number, _, _ in one] == [number for number, _, _ in other]
    for (_, nodes, rows), (_, other_nodes, other_rows) in zip(one, other, strict=True):
        assert torch.equal(nodes, other_nodes)
        assert torch.equal(rows, other_rows)


@pytest.mark.parametrize("prefetch", [1, 4])
def test_depth_changes_no_bit(prefetch: int) -> None:
    shallow = everything_fetched(None, 0)
    assert len(shallow) == NUM_BATCHES + 1
    assert_identical(shallow, everything_fetched(None, prefetch))


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4, 8])
def test_neither_depth_nor_ranks_change_a_bit(rank_pools: RankPools, num_ranks: int) -> None:
    *wanted, (_, _, rows_NLD) = everything_fetched(None, 0)
    for prefetch in (0, 1, 4):
        of_ranks = rank_pools[num_ranks].run(on_rank, prefetch)
        for *found, _ in of_ranks:
            assert_identical(found, wanted)
        assert torch.equal(torch.cat([own_rows for *_, (_, _, own_rows) in of_ranks]), rows_NLD)


def leave_early(world: World, prefetch: int, late_rank: int) -> int:
    """All ranks leave after two batches, one of them later; then they use the memory's exchange again."""
    memory = Memory(NUM_NODES, Walk("decay", 3, 1e-3), 16, exchange=world.new_exchange())
    ahead = fetch_ahead(memory, requests(), prefetch=prefetch)
    next(ahead), next(ahead)
    if world.rank == late_rank:
        time.sleep(0.2)
    ahead.close()  # type: ignore[attr-defined]
    memory.reset(1)
    return sum(1 for _ in fetch_ahead(memory, requests(), prefetch=prefetch))


@pytest.mark.parametrize("late_rank", [0, 1])
@pytest.mark.parametrize("prefetch", [0, 1, 4, 50])
def test_ranks_that_leave_early_do_not_wait_for_one_another(
    rank_pools: RankPools, prefetch: int, late_rank: int
) -> None:
    assert rank_pools[2].run(leave_early, prefetch, late_rank, seconds=20.0) == [NUM_BATCHES] * 2


@dataclass(frozen=True)
class Note:
    """What is planned, as far as it is looked at where there is no memory."""

    number: int

    def nodes(self) -> Tensor:
        return torch.tensor([self.number])


def leave_early_without_memory(world: World, prefetch: int) -> list[int]:
    """Planning asks other ranks too, whether there is a memory or not."""

    def planned() -> Iterator[Any]:
        for request in requests():
            world.gather_objects(request.note)
            yield replace(request, note=Note(request.note))

    ahead = rows_ahead(None, planned(), prefetch=prefetch)
    next(ahead), next(ahead)
    if world.rank == 0:
        time.sleep(0.2)
    ahead.close()  # type: ignore[attr-defined]
    return world.gather_objects(world.rank)


@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_ranks_without_memory_leave_early_together(rank_pools: RankPools, prefetch: int) -> None:
    assert rank_pools[2].run(leave_early_without_memory, prefetch, seconds=20.0) == [[0, 1]] * 2


def test_an_error_ahead_reaches_the_consumer_after_the_batches_before_it() -> None:
    def failing() -> Iterator[MemoryRequest[int]]:
        for request in requests():
            if request.note == 5:
                raise OSError("shard gone")
            yield request

    memory = Memory(NUM_NODES, Walk("decay", 3, 1e-3), 16)
    seen = []
    with pytest.raises(OSError, match="shard gone"):
        for number, _ in fetch_ahead(memory, failing(), prefetch=3):
            seen.append(number)
    assert seen == [0, 1, 2, 3, 4]


def test_leaving_early_ends_the_thread() -> None:
    threads = threading.active_count()
    memory = Memory(NUM_NODES, Walk("decay", 3, 1e-3), 16)
    ahead = fetch_ahead(memory, requests(), prefetch=2)
    next(ahead)
    ahead.close()  # type: ignore[attr-defined]
    assert threading.active_count() == threads
