"""Copies of other ranks' rows change no result, whatever happens between two readings of them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from benchmarks.rank_pool import RankPools
from tests.ranks import test_pipeline
from tests.support.memories import record, state_of
from tests.support.memory_scenarios import Scenario, random_batches, random_needs, reads_of
from tpnet_dist.distributed.exchange import Exchange, LocalExchange
from tpnet_dist.distributed.world import World
from tpnet_dist.memory.event_run import BatchEvents, EventRun
from tpnet_dist.memory.fetched_rows import FetchedRows
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.pipeline import fetch_ahead
from tpnet_dist.memory.walks import Walk

CAPACITIES = (0, 1, 3, 8, 1000)
WANTING = Scenario(24, random_batches(24, [6] * 16), needed=random_needs(24, [12] * 16), width=37)


def through_pipeline(memory: Memory, prefetch: int) -> list[tuple[int, Tensor, Tensor]]:
    """Batches recorded alone, looked at, or recorded as groups."""
    found = [
        (number, fetched.nodes_U, fetched.rows_ULD)
        for number, fetched in fetch_ahead(memory, test_pipeline.requests(), prefetch=prefetch)
    ]
    return [*found, (-1, torch.empty(0), state_of(memory)["rows"])]


def pipelines_on_rank(world: World) -> int:
    """How many rows were there from earlier runs."""
    exchange = world.new_exchange()

    def memory(capacity: int) -> Memory:
        walk = Walk("decay", 3, 1e-3)
        return Memory(
            test_pipeline.NUM_NODES,
            walk,
            16,
            exchange=exchange,
            borrowed_rows=capacity,
        )

    wanted = through_pipeline(memory(0), prefetch=0)
    for capacity in CAPACITIES:
        for prefetch in (0, 3):
            test_pipeline.assert_identical(through_pipeline(memory(capacity), prefetch), wanted)
    return exchange.stats.rows_needed - exchange.stats.rows_borrowed


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_pipelines_with_groups_are_the_same_to_the_bit(rank_pools: RankPools, num_ranks: int) -> None:
    assert min(rank_pools[num_ranks].run(pipelines_on_rank)) > 0


Course = Callable[[Memory, list[tuple[BatchEvents, Tensor]]], Iterator[FetchedRows]]


def there_and_back(memory: Memory, inputs: list[tuple[BatchEvents, Tensor]]) -> Iterator[FetchedRows]:
    """Events, a snapshot, others, back, and others again; what is planned last is not carried out."""
    yield from in_runs(memory, inputs[:5])
    memory.snapshot()
    yield from in_runs(memory, inputs[5:10])
    memory.restore()
    yield from in_runs(memory, inputs[8:13])
    memory.plan(*zip(*inputs[13:16], strict=True))
    memory.restore()
    memory.forget_snapshot()
    yield from in_runs(memory, inputs[5:10])


def anew(memory: Memory, inputs: list[tuple[BatchEvents, Tensor]]) -> Iterator[FetchedRows]:
    """An epoch, left early, and the next."""
    yield from in_runs(memory, inputs[:5])
    memory.plan(*zip(*inputs[5:8], strict=True))
    memory.reset(1)
    yield from in_runs(memory, inputs[:5])
    yield from in_runs(memory, inputs[5:15])


def looked_at(memory: Memory, inputs: list[tuple[BatchEvents, Tensor]]) -> Iterator[FetchedRows]:
    """Rows before and after each batch."""
    for batch, reads in inputs[:8]:
        yield memory.look(reads)
        record(memory, batch)
        yield memory.look(reads)


def caught_up(memory: Memory, inputs: list[tuple[BatchEvents, Tensor]]) -> Iterator[FetchedRows]:
    """Rows are looked at, then events are recorded that nobody reads, by columns if need be."""
    yield memory.look(inputs[0][1])
    run = EventRun.of([batch for batch, _ in inputs[:10]])
    memory.catch_up([run.batches(0, 7), run.batches(7, 10)], run.num_events)
    yield from in_runs(memory, inputs[10:])


COURSES: list[Course] = [there_and_back, anew, looked_at, caught_up]


def in_runs(memory: Memory, inputs: list[tuple[BatchEvents, Tensor]]) -> Iterator[FetchedRows]:
    for first in range(0, len(inputs), 3):
        yield from memory.run(*zip(*inputs[first : first + 3], strict=True))


def follow(exchange: Exchange, course: Course, scenario: Scenario) -> list[Tensor]:
    memory = scenario.memory(exchange)
    inputs = [(batch, reads_of(exchange, scenario, number)) for number, batch in enumerate(scenario.batches)]
    found = [column for fetched in course(memory, inputs) for column in fetched.tensors()[1:]]
    return [*found, *state_of(memory).values()]


def follow_variants(world: World, course: Course, scenario: Scenario) -> tuple[int, list[Tensor]]:
    """How many rows were there from earlier runs, and the rows this rank ends with."""
    exchange = world.new_exchange()
    wanted = follow(exchange, course, scenario)
    for capacity, catch_up in product(CAPACITIES, ("columns", "nodes")):
        found = follow(exchange, course, replace(scenario, borrowed_rows=capacity, catch_up=catch_up))
        assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))
    return exchange.stats.rows_needed - exchange.stats.rows_borrowed, wanted[-3:]


@pytest.mark.parametrize("num_ranks", [2, 4])
@pytest.mark.parametrize("course", COURSES)
def test_whatever_becomes_of_the_rows_copies_follow(
    rank_pools: RankPools, course: Course, num_ranks: int
) -> None:
    of_ranks = rank_pools[num_ranks].run(follow_variants, course, WANTING)
    assert min(saved for saved, _ in of_ranks) > 0
    alone = follow(LocalExchange(), course, WANTING)[-3:]
    for found, wanted in zip(zip(*(state for _, state in of_ranks), strict=True), alone, strict=True):
        assert torch.equal(torch.cat(found), wanted)
