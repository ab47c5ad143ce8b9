"""Any number of ranks computes what one process without ranks computes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.rank_pool import RankPools
from tests.reference.golden_checks import row_deviation
from tests.support.memories import record
from tests.support.memory_scenarios import (
    DECAY,
    Replayed,
    Scenario,
    carried_out,
    catch_up_on_rank,
    random_batches,
    random_needs,
    replay,
    replay_each_on_rank,
    replay_on_rank,
)
from tpnet_dist.distributed.exchange import LocalExchange
from tpnet_dist.distributed.world import World
from tpnet_dist.errors import InputError
from tpnet_dist.memory.event_run import BatchEvents
from tpnet_dist.memory.memory import CatchUp, Memory
from tpnet_dist.memory.walks import Walk, WalkKind

WALKS: tuple[WalkKind, ...] = ("decay", "count", "transition")
BFLOAT16_ROUNDING = 2.0**-8

SCENARIOS = {
    "even": Scenario(24, random_batches(24, [24] * 8)),
    "uneven-slices": Scenario(23, random_batches(23, [7, 1, 3, 10, 5, 13, 2, 9])),
    "batches-smaller-than-the-ranks": Scenario(9, random_batches(9, [1, 0, 2, 3, 1, 0, 1])),
    "more-ranks-than-nodes": Scenario(2, random_batches(2, [5, 1, 6, 3])),
    "one-node": Scenario(1, random_batches(1, [5, 1, 2])),
    "last-rank-owns-nothing": Scenario(5, random_batches(5, [6] * 4), width=8),
    "hub-in-every-event": Scenario(40, random_batches(40, [30] * 6, hub=13)),
    "further-nodes": Scenario(
        15, random_batches(15, [4, 0, 9, 2]), needed=random_needs(15, [30, 7, 0, 3]), width=4
    ),
    "some-want-nothing": Scenario(8, random_batches(8, [1, 1, 2, 1]), needed=random_needs(8, [0, 1, 0, 0])),
    "many-batches": Scenario(8, random_batches(8, [5] * 40)),
    "very-many-batches": Scenario(8, random_batches(8, [5] * 300)),
    "odd-rows": Scenario(6, random_batches(6, [3, 1, 4]), walk=Walk("decay", hops=2, decay=1e-3), width=5),
}
SLOW = {"very-many-batches": pytest.mark.slow}


def assert_same(ranks: Sequence[Replayed], whole: Replayed, tolerance: float) -> None:
    """State block by block, and every row that was fetched."""
    for name, wanted in whole.state.items():
        parts = [rank.state[name] for rank in ranks]
        assert_close(torch.cat(parts), wanted, tolerance)
    for rank in ranks:
        for batch, nodes_U in enumerate(rank.nodes_of_batch):
            place_U = torch.searchsorted(whole.nodes_of_batch[batch], nodes_U)
            assert torch.equal(whole.nodes_of_batch[batch][place_U], nodes_U)
            assert_close(rank.rows_of_batch[batch], whole.rows_of_batch[batch][place_U], tolerance)
            assert_products_close(
                rank.products_of_batch[batch], whole.products_of_batch[batch][place_U], tolerance
            )


def assert_close(found: Tensor, wanted: Tensor, tolerance: float) -> None:
    """Each node's layer against its own largest entry."""
    assert found.shape == wanted.shape
    deviation = row_deviation(found.numpy(), wanted.numpy())
    assert deviation.size == 0 or deviation.max() <= tolerance


def assert_products_close(found_ULL: Tensor, wanted_ULL: Tensor, tolerance: float) -> None:
    """Against the product of the layers' norms."""
    assert found_ULL.shape == wanted_ULL.shape
    norm_UL = wanted_ULL.diagonal(dim1=1, dim2=2).sqrt()
    scale_ULL = (norm_UL[:, :, None] * norm_UL[:, None]).clamp(min=1e-30)
    assert ((found_ULL - wanted_ULL).abs() <= 2 * tolerance * scale_ULL).all()


# ---- parity ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in SCENARIOS])
def test_ranks_compute_what_one_process_computes(rank_pools: RankPools, name: str, num_ranks: int) -> None:
    """To the last bit, for all walks."""
    scenarios = [
        replace(one, dtype=dtype)
        for one in with_each_walk(SCENARIOS[name])
        for dtype in (torch.float32, torch.float64)
    ]
    of_ranks = rank_pools[num_ranks].run(replay_each_on_rank, scenarios)
    for scenario, ranks in zip(scenarios, zip(*of_ranks, strict=True), strict=True):
        assert_same(ranks, replay(LocalExchange(), scenario), 0)


def with_each_walk(scenario: Scenario) -> list[Scenario]:
    return [replace(scenario, walk=replace(scenario.walk, kind=kind)) for kind in WALKS]


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("borrowed_rows", [0, 1000])
@pytest.mark.parametrize(
    "name", ["uneven-slices", "more-ranks-than-nodes", "hub-in-every-event", "further-nodes"]
)
def test_ranks_compute_several_timescales_as_one_process_does_those_of_each(
    rank_pools: RankPools, name: str, borrowed_rows: int, num_ranks: int
) -> None:
    """To the last bit: rows as one process has them, whose layers are those of a memory for each rate."""
    rates = (1e-5, 1e-3, 1e-1)
    scenario = replace(SCENARIOS[name], walk=replace(DECAY, decay=rates), borrowed_rows=borrowed_rows)
    ranks = rank_pools[num_ranks].run(replay_on_rank, scenario)
    assert_same(ranks, replay(LocalExchange(), scenario), 0)
    rows_NLD = torch.cat([rank.state["rows"] for rank in ranks])
    for first, rate in enumerate(rates, start=1):
        alone = replay(LocalExchange(), replace(scenario, walk=replace(DECAY, decay=rate)))
        assert torch.equal(
            rows_NLD[:, [0, *range(first, rows_NLD.shape[1], len(rates))]], alone.state["rows"]
        )


@pytest.mark.parametrize("kind", WALKS)
def test_one_rank_is_the_local_memory_to_the_bit(rank_pools: RankPools, kind: WalkKind) -> None:
    scenario = replace(SCENARIOS["further-nodes"], walk=Walk(kind, hops=3, decay=1e-3))
    [rank] = rank_pools[1].run(replay_on_rank, scenario)
    assert_equal_to_the_bit([rank], [replay(LocalExchange(), scenario)])


@pytest.mark.parametrize("num_ranks", [2, 4])
@pytest.mark.parametrize("kind", WALKS)
def test_runs_are_the_same_to_the_bit(rank_pools: RankPools, kind: WalkKind, num_ranks: int) -> None:
    scenario = replace(SCENARIOS["hub-in-every-event"], walk=Walk(kind, hops=3, decay=1e-3))
    first, second, *planned_otherwise = (
        rank_pools[num_ranks].run(replay_on_rank, replace(scenario, planned=planned))
        for planned in ("one ahead", "one ahead", "one by one", "all first")
    )
    for other in (second, *planned_otherwise):
        assert_equal_to_the_bit(first, other)
    assert [rank.stats for rank in first] == [rank.stats for rank in second]


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("borrowed_rows", [0, 3, 1000])
@pytest.mark.parametrize(
    "name", ["further-nodes", "hub-in-every-event", "many-batches", "more-ranks-than-nodes"]
)
def test_rows_do_not_depend_on_runs_or_on_how_many_are_borrowed(
    rank_pools: RankPools, name: str, borrowed_rows: int, num_ranks: int
) -> None:
    """To the last bit, on any number of ranks, for all walks; for one where batches are many."""
    one = SCENARIOS[name]
    for scenario in [one] if name == "many-batches" else with_each_walk(one):
        scenarios = [
            replace(scenario, borrowed_rows=borrowed_rows, run_batches=batches)
            for batches in (1, 3, 32, None)
        ]
        of_ranks = rank_pools[num_ranks].run(replay_each_on_rank, scenarios)
        whole = replay(LocalExchange(), scenario)
        for ranks in zip(*of_ranks, strict=True):
            assert_same(ranks, whole, 0)


@pytest.mark.parametrize("num_ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("catch_up", ["columns", "nodes"])
def test_unread_events_leave_the_rows_that_one_process_has(
    rank_pools: RankPools, catch_up: CatchUp, num_ranks: int
) -> None:
    """To the last bit, for all walks; also with more ranks than columns."""
    scenarios = [
        replace(scenario, catch_up=catch_up)
        for name in SCENARIOS
        if name not in SLOW
        for scenario in with_each_walk(SCENARIOS[name])
    ]
    of_ranks = rank_pools[num_ranks].run(catch_up_on_rank, scenarios)
    for scenario, ranks in zip(scenarios, zip(*of_ranks, strict=True), strict=True):
        wanted = replay(LocalExchange(), scenario).state.values()
        for parts, whole in zip(zip(*ranks, strict=True), wanted, strict=True):
            assert torch.equal(torch.cat(parts), whole)


def assert_equal_to_the_bit(found: list[Replayed], wanted: list[Replayed]) -> None:
    for one, two in zip(found, wanted, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one.tensors(), two.tensors(), strict=True))


# ---- half-precision exchange -------------------------------------------------------------------------------


@pytest.mark.parametrize("num_ranks", [2, 4])
@pytest.mark.parametrize("kind", WALKS)
@pytest.mark.parametrize(
    "name",
    [
        *("even", "hub-in-every-event", "further-nodes", "many-batches"),
        pytest.param("very-many-batches", marks=pytest.mark.slow),
    ],
)
def test_bfloat16_exchange_errs_by_one_rounding_for_each_trip(
    rank_pools: RankPools, name: str, kind: WalkKind, num_ranks: int
) -> None:
    """The stated error. A trip rounds to 8 bits, by at most 2^-8 of each number; nothing else is rounded.

    Layer l is made of l messages, each of a row that was fetched and a sum that was sent: 2l trips. So it
    errs by at most (1 + 2^-8)^(2l) − 1 of what the sums come to if nothing cancels, which is the memory of
    |P|: 0.8 % for layer 1, 1.6 % for layer 2, 2.4 % for layer 3. Layer 0 is exact. Reading a fetched row adds
    a trip.
    """
    exact = replace(SCENARIOS[name], walk=Walk(kind, hops=3, decay=1e-3), dtype=torch.float64)
    rounded = replace(exact, dtype=torch.float32, exchange_dtype=torch.bfloat16)
    ranks = rank_pools[num_ranks].run(replay_on_rank, rounded)
    wanted_NLD = replay(LocalExchange(), exact).state["rows"]
    found_NLD = torch.cat([rank.state["rows"] for rank in ranks]).double()
    trips_L1 = 2.0 * torch.arange(4)[:, None]
    bound_NLD = ((1 + BFLOAT16_ROUNDING) ** trips_L1 - 1) * rows_without_cancelling(exact)
    assert ((found_NLD - wanted_NLD).abs() <= bound_NLD * (1 + 1e-4) + 1e-6 * wanted_NLD.abs()).all()
    assert row_deviation(found_NLD[:, 1:].numpy(), wanted_NLD[:, 1:].numpy()).max() < 0.02


def rows_without_cancelling(scenario: Scenario) -> Tensor:
    memory = scenario.memory(LocalExchange())
    memory.table.rows_NLD.abs_()
    record(memory, *scenario.batches)
    return memory.table.rows_NLD


# ---- what it costs -----------------------------------------------------------------------------------------


def batch_of(*pairs: tuple[int, int], time: float) -> BatchEvents:
    src, dst = torch.tensor(pairs).T
    return BatchEvents(src, dst, torch.full((len(pairs),), time, dtype=torch.float64))


EXAMPLE = [batch_of((0, 2), time=0.0), batch_of((2, 3), time=1.0)]
"""Of the memory's docstring: nodes 0 1 | 2 3."""


def costs_on_rank(world: World, exchange_dtype: torch.dtype | None) -> tuple[dict[str, Any], Tensor]:
    """Rank 0 reads row 2 before the second batch; returns its layer 1, too."""
    memory = Memory(4, Walk("count", 1, 0.0), 3, exchange=world.new_exchange(), exchange_dtype=exchange_dtype)
    reads = [None, torch.tensor([2, 2])] if world.rank == 0 else [None, None]
    *_, last = memory.run(EXAMPLE, reads)
    stats = {key: value for key, value in memory.exchange.stats.to_json().items() if key != "seconds"}
    return stats, last.rows_ULD[:, 1] - memory.look(torch.tensor([0])).rows_ULD[:, 0]


@pytest.mark.parametrize(
    ("exchange_dtype", "row", "layer"),
    [(None, 8 + 24, 8 + 12 + 4), (torch.bfloat16, 8 + 12 + 4, 8 + 6 + 2)],
    ids=["fp32", "bf16"],
)
def test_costs_of_the_example_are_those_counted_by_hand(
    rank_pools: RankPools, exchange_dtype: torch.dtype | None, row: int, layer: int
) -> None:
    """One hop, width 3. Rank 0 asks for both layers of row 2 (an id of 8 bytes), rank 1 for layer 0 of row 0;
    each comes with a clock of 8 bytes, and is filled up to a multiple of 8. Collectives: counts, the
    most of anybody, and how rows fit (24 bytes), ids, rows.

    Of the four ends, rank 0 replays both of (0,2), since it reads row 2 later; rank 1 that of 2, and both of
    (2,3).
    """
    (one, read_minus_row_0), (two, _) = rank_pools[2].run(costs_on_rank, exchange_dtype)
    both = {"rows_needed": 1, "rows_borrowed": 1, "collectives": 3, "batches": 2, "runs": 1}
    assert one == {"bytes_sent": 24 + 8 + layer, "bytes_received": 24 + row + 8, "ends_replayed": 2, **both}
    assert two == {"bytes_sent": 24 + 8 + row, "bytes_received": 24 + layer + 8, "ends_replayed": 3, **both}
    assert read_minus_row_0.abs().max() <= (0 if exchange_dtype is None else 0.01)


def borrowed_on_rank(world: World) -> list[int]:
    """How many rows travel to rank 0 for each of four runs: it reads row 2 in all of them."""
    memory = Memory(4, Walk("count", 2, 0.0), 3, exchange=world.new_exchange(), borrowed_rows=4)
    borrowed = []
    runs = ([EXAMPLE[0]], [batch_of((1, 1), time=1.0)], [batch_of((2, 3), time=2.0)], [BatchEvents.none()])
    for run in runs:
        before = memory.exchange.stats.rows_borrowed
        for _ in memory.run(run, [torch.tensor([2]) if world.rank == 0 else None]):
            pass
        borrowed.append(memory.exchange.stats.rows_borrowed - before)
    return borrowed


def test_a_row_is_borrowed_again_only_when_events_were_not_replayed_on_it(rank_pools: RankPools) -> None:
    """Row 2 is read before (0,2), which is not replayed on it; then it is borrowed again, and stays right
    while nothing happens to it. Before (2,3) it is there; afterwards it is not right any more."""
    of_rank_0, of_rank_1 = rank_pools[2].run(borrowed_on_rank)
    assert of_rank_0 == [1, 1, 0, 1]
    assert of_rank_1 == [1, 0, 0, 0]


def longest_on_rank(world: World) -> tuple[int, int]:
    """The length of the longest array that a memory holds after some runs, and how many rows it has."""
    walk = Walk("transition", 2, 1e-3)
    scenario = Scenario(5000, random_batches(5000, [20] * 12), walk=walk, borrowed_rows=100)
    memory = scenario.memory(world.new_exchange())
    for run, plan in carried_out(memory, scenario):
        for number in range(len(run)):
            memory.read(plan, number)
            memory.record(plan, range(number, number + 1))
    longest = max(max(array.shape) for array in arrays_in(memory, set()))
    return longest, len(memory.table.rows_NLD) + len(memory.borrowed.rows_VLD)


def arrays_in(thing: object, seen: set[int]) -> Iterator[Tensor | NDArray[Any]]:
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, Tensor | np.ndarray):
        yield thing
    elif isinstance(thing, list | tuple):
        for each in thing:
            yield from arrays_in(each, seen)
    elif type(thing).__module__.startswith("tpnet_dist."):
        for each in vars(thing).values():
            yield from arrays_in(each, seen)


def test_a_rank_holds_nothing_as_long_as_there_are_nodes(rank_pools: RankPools) -> None:
    """Its clocks are longest: those of own and of borrowed rows."""
    for longest, num_rows in rank_pools[4].run(longest_on_rank):
        assert 1250 < longest == num_rows < 2500


# ---- bad input ---------------------------------------------------------------------------------------------


def refusal_on_rank(world: World, batch: BatchEvents) -> tuple[str, int]:
    memory = Memory(4, Walk("decay", 2, 0.0), 3, exchange=world.new_exchange())
    with pytest.raises(InputError) as refused:
        memory.plan([batch])
    return str(refused.value), memory.exchange.stats.collectives


def test_every_rank_refuses_a_bad_batch_before_any_collective(rank_pools: RankPools) -> None:
    batch = BatchEvents(torch.tensor([0, 1]), torch.tensor([1, 4]), torch.zeros(2).double())
    answers = rank_pools[2].run(refusal_on_rank, batch)
    assert answers[0] == answers[1]
    sentence, collectives = answers[0]
    assert "event 1 of the batch: destination id 4 is not within 0…3" in sentence
    assert collectives == 0
