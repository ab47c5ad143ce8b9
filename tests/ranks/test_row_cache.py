"""Copies of remote rows change not one bit of what is fetched and recorded, however many are kept.

Shape letters: N nodes, U fetched nodes, L layers, D width.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.rank_pool import RankPools
from tests.ranks import test_pipeline
from tests.ranks.test_memory_parity import (
    SCENARIOS,
    WALKS,
    Replayed,
    Scenario,
    assert_equal_to_the_bit,
    inputs_of,
    random_batches,
    random_needs,
    replay,
    replay_on_rank,
)
from tpnet_dist.memory.memory import FetchedRows, Memory
from tpnet_dist.memory.pipeline import fetch_ahead
from tpnet_dist.memory.plan import BatchEvents
from tpnet_dist.memory.walks import Walk, WalkKind
from tpnet_dist.ranks.blocks import Blocks, even_borders
from tpnet_dist.ranks.exchange import Exchange, LocalExchange
from tpnet_dist.ranks.world import World

UNLIMITED = 10**9
CAPACITIES = (1, 3, UNLIMITED)

WANTING = Scenario(30, random_batches(30, [6] * 20), needed=random_needs(30, [20] * 20))
"""Rows wanted more often than they change."""
KEPT = (WANTING, *(SCENARIOS[name] for name in ("further-nodes", "last-rank-owns-nothing")))


def replay_with_and_without(world: World, scenario: Scenario) -> int:
    """How many replays with copies gave the bits of the one without."""
    exchange = world.new_exchange()
    wanted = replay(exchange, scenario)
    variants = ((1, False), (3, True), (UNLIMITED, False), (UNLIMITED, True))
    for capacity, plan_first in variants:
        cached = replace(scenario, cache_rows=capacity, plan_first=plan_first)
        assert_equal_to_the_bit([replay(exchange, cached)], [wanted])
    return len(variants)


@pytest.mark.parametrize("num_ranks", [2, 4])
@pytest.mark.parametrize("exchange_dtype", [None, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("kind", WALKS)
def test_a_cache_of_any_size_changes_no_bit(
    rank_pools: RankPools, kind: WalkKind, exchange_dtype: torch.dtype | None, num_ranks: int
) -> None:
    for scenario in KEPT:
        walked = replace(scenario, walk=Walk(kind, hops=3, decay=1e-3), exchange_dtype=exchange_dtype)
        assert rank_pools[num_ranks].run(replay_with_and_without, walked) == [4] * num_ranks


def test_one_rank_has_no_cache(rank_pools: RankPools) -> None:
    cached = replace(WANTING, cache_rows=UNLIMITED)
    assert cached.memory(LocalExchange()).cache is None
    [rank] = rank_pools[1].run(replay_on_rank, cached)
    assert_equal_to_the_bit([rank], [replay(LocalExchange(), WANTING)])
    assert (rank.account["rows_remote"], rank.account["rows_held"]) == (0, 0)


def test_ranks_may_keep_as_many_rows_as_each_likes(rank_pools: RankPools) -> None:
    wanted = rank_pools[4].run(replay_on_rank, WANTING)
    found = rank_pools[4].run(replay_with_own_capacity, WANTING, [0, UNLIMITED, 2, 7])
    assert_equal_to_the_bit(found, wanted)
    held = [replayed.account["rows_held"] for replayed in found]
    assert held[0] == 0 < held[2] < min(held[1], held[3])


def replay_with_own_capacity(world: World, scenario: Scenario, capacities: list[int]) -> Replayed:
    return replay(world.new_exchange(), replace(scenario, cache_rows=capacities[world.rank]))


# ---- what is saved -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_only_rows_that_changed_since_travel(rank_pools: RankPools, num_ranks: int) -> None:
    """Counted by hand, so to speak: event by event, with sets."""
    ranks = rank_pools[num_ranks].run(replay_on_rank, replace(WANTING, cache_rows=UNLIMITED))
    plain = rank_pools[num_ranks].run(replay_on_rank, WANTING)
    row_bytes = 4 * 7 * 4 + 4 * 4 * 4
    for rank, (cached, uncached) in enumerate(zip(ranks, plain, strict=True)):
        remote, held = rows_by_hand(WANTING, rank, num_ranks)
        assert (cached.account["rows_remote"], cached.account["rows_held"]) == (remote, held)
        assert (uncached.account["rows_remote"], uncached.account["rows_held"]) == (remote, 0)
        assert cached.account["bytes_saved"] == held * (row_bytes + 8)
        assert 0 < held < remote
    saved = sum(cached.account["bytes_saved"] for cached in ranks)
    totals = [sum(rank.account["bytes_sent"] for rank in some) for some in (plain, ranks)]
    assert totals[0] - totals[1] == saved


def rows_by_hand(scenario: Scenario, rank: int, num_ranks: int) -> tuple[int, int]:
    """Remote rows the rank wants, and how many of them it has fetched since they last changed."""
    first, stop = Blocks(scenario.num_nodes, num_ranks).range_of(rank)
    fresh, remote, held = set[int](), 0, 0
    for batch, needed in zip(scenario.batches, scenario.needed, strict=True):
        begin, end = even_borders(len(batch), num_ranks)[rank : rank + 2]
        ends = [*batch.src_B[begin:end].tolist(), *batch.dst_B[begin:end].tolist()]
        wanted = {*ends, *needed[rank::num_ranks].tolist()} - set(range(first, stop))
        remote, held = remote + len(wanted), held + len(wanted & fresh)
        fresh = (fresh | wanted) - {*batch.src_B.tolist(), *batch.dst_B.tolist()}
    return remote, held


# ---- pipelines, groups, snapshots --------------------------------------------------------------------------


def through_pipeline(memory: Memory, prefetch: int) -> list[tuple[int, Tensor, Tensor]]:
    """Batches recorded alone, looked at, or recorded as groups."""
    found = [
        (number, fetched.nodes_U, fetched.stored.rows_ULD)
        for number, fetched in fetch_ahead(memory, test_pipeline.requests(), prefetch=prefetch)
    ]
    return [*found, (-1, torch.empty(0), memory.state_dict()["rows"])]


def pipelines_on_rank(world: World, exchange_dtype: torch.dtype | None) -> int:
    """How many rows were held in all."""
    exchange = world.new_exchange()

    def memory(capacity: int) -> Memory:
        walk = Walk("decay", 3, 1e-3)
        return Memory(
            test_pipeline.NUM_NODES,
            walk,
            16,
            exchange=exchange,
            exchange_dtype=exchange_dtype,
            cache_rows=capacity,
        )

    wanted = through_pipeline(memory(0), prefetch=0)
    for capacity in CAPACITIES:
        for prefetch in (0, 3):
            test_pipeline.assert_identical(through_pipeline(memory(capacity), prefetch), wanted)
    return exchange.account.rows_held


@pytest.mark.parametrize("num_ranks", [2, 4])
@pytest.mark.parametrize("exchange_dtype", [None, torch.bfloat16], ids=["fp32", "bf16"])
def test_pipelines_with_groups_are_the_same_to_the_bit(
    rank_pools: RankPools, exchange_dtype: torch.dtype | None, num_ranks: int
) -> None:
    assert min(rank_pools[num_ranks].run(pipelines_on_rank, exchange_dtype)) > 0


NOTHING = BatchEvents(torch.empty(0).long(), torch.empty(0).long(), torch.empty(0).double())

Course = Callable[[Memory, list[tuple[BatchEvents, Tensor | None]]], Iterator[FetchedRows]]


def there_and_back(memory: Memory, inputs: list[tuple[BatchEvents, Tensor | None]]) -> Iterator[FetchedRows]:
    """Events, a snapshot, others, back, and others again; of the first ones planned last none is fetched."""
    yield from in_turn(memory, inputs[:5])
    memory.snapshot()
    yield from in_turn(memory, inputs[5:10])
    memory.restore()
    yield from in_turn(memory, inputs[8:13])
    memory.plan_run([batch for batch, _ in inputs[13:16]], [needed for _, needed in inputs[13:16]])
    memory.restore()
    memory.forget_snapshot()
    yield from in_turn(memory, inputs[5:10])


def anew(memory: Memory, inputs: list[tuple[BatchEvents, Tensor | None]]) -> Iterator[FetchedRows]:
    """An epoch, left early, and the next; then a state saved on the way is loaded."""
    yield from in_turn(memory, inputs[:5])
    memory.plan_run([batch for batch, _ in inputs[5:8]], [needed for _, needed in inputs[5:8]])
    memory.reset(1)
    yield from in_turn(memory, inputs[:5])
    saved = {name: tensor.clone() for name, tensor in memory.state_dict().items()}
    yield from in_turn(memory, inputs[5:10])
    memory.load_state_dict(saved)
    yield from in_turn(memory, inputs[8:15])


def looked_at(memory: Memory, inputs: list[tuple[BatchEvents, Tensor | None]]) -> Iterator[FetchedRows]:
    """Rows before and after each batch; for itself it wants no products."""
    for batch, needed in inputs[:8]:
        yield memory.fetch(memory.plan(batch, needed, record=False))
        plan = memory.plan(batch, needed)
        fetched = memory.fetch(plan, products=False)
        memory.record(plan, fetched)
        yield memory.fetch(memory.plan(NOTHING, needed, record=False))


def in_turn(memory: Memory, inputs: list[tuple[BatchEvents, Tensor | None]]) -> Iterator[FetchedRows]:
    plans = memory.plan_run([batch for batch, _ in inputs], [needed for _, needed in inputs])
    for plan in plans:
        fetched = memory.fetch(plan)
        memory.record(plan, fetched)
        yield fetched


def follow(exchange: Exchange, course: Course, scenario: Scenario) -> list[Tensor]:
    memory = scenario.memory(exchange)
    inputs = list(inputs_of(exchange, scenario))
    found = [column for fetched in course(memory, inputs) for column in fetched.stored.columns()]
    return [*found, *memory.state_dict().values()]


def follow_with_and_without(world: World, course: Course, scenario: Scenario) -> int:
    """How many rows were held in all."""
    exchange = world.new_exchange()
    wanted = follow(exchange, course, scenario)
    for capacity in CAPACITIES:
        found = follow(exchange, course, replace(scenario, cache_rows=capacity))
        assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))
    return exchange.account.rows_held


@pytest.mark.parametrize("num_ranks", [2, 4])
@pytest.mark.parametrize("exchange_dtype", [None, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("course", [there_and_back, anew, looked_at])
def test_whatever_becomes_of_the_rows_copies_follow(
    rank_pools: RankPools, course: Course, exchange_dtype: torch.dtype | None, num_ranks: int
) -> None:
    scenario = replace(WANTING, exchange_dtype=exchange_dtype)
    assert min(rank_pools[num_ranks].run(follow_with_and_without, course, scenario)) > 0


def fetch_out_of_order(world: World) -> int:
    memory = replace(WANTING, cache_rows=8).memory(world.new_exchange())
    inputs = inputs_of(memory.exchange, WANTING)
    skipped, next_one = (memory.plan(*next(inputs), record=False) for _ in range(2))
    with pytest.raises(AssertionError, match="in the order they were planned"):
        memory.fetch(next_one)
    memory.fetch(skipped)
    return memory.exchange.account.collectives


def test_a_batch_whose_copies_others_count_on_is_not_skipped(rank_pools: RankPools) -> None:
    rank_pools[2].run(fetch_out_of_order)
