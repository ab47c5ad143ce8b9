"""The memory is the projected walk matrices: the theorems, extremes of time, and what must not change."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reference.literal import LiteralMemory
from reference.oracle import Event, batches_of, timescale_matrices, walk_matrices
from tests.reference.golden_checks import row_deviation
from tests.reference.test_oracle import HOPS, NUM_NODES, batch_sizes, decays, last_time, streams
from tests.support.memories import (
    WALKS,
    YEAR,
    assert_state,
    batch,
    batches_from,
    copy_of_state,
    explicit_memory,
    fetch_all,
    random_events,
    read_all,
    record,
)
from tests.support.sentences import refused
from tpnet_dist.distributed.blocks import Blocks
from tpnet_dist.distributed.exchange import LocalExchange
from tpnet_dist.memory.event_run import BatchEvents
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.walks import Walk, WalkKind

# ---- the theorems ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WALKS)
@settings(max_examples=150, deadline=None)
@given(events=streams(), batch_size=batch_sizes, decay=decays, wait=st.sampled_from([0.0, 7.5, 1e9]))
def test_rows_are_the_sums_over_all_temporal_walks(
    kind: WalkKind, events: list[Event], batch_size: int, decay: float, wait: float
) -> None:
    """Theorem 1, for each walk matrix; ties, self-loops, repeated edges and isolated nodes happen."""
    memory = record(explicit_memory(NUM_NODES, kind, decay), *batches_from(events, batch_size))
    at_time = last_time(events) + wait
    wanted = walk_matrices(events, batches_of(len(events), batch_size), NUM_NODES, HOPS, kind, decay, at_time)
    found_LNN = read_all(memory, at_time).transpose(0, 1).numpy()
    np.testing.assert_allclose(found_LNN, wanted, rtol=1e-9, atol=1e-290)


@settings(max_examples=100, deadline=None)
@given(
    events=streams(),
    batch_size=batch_sizes,
    rates=st.lists(decays, min_size=2, max_size=3, unique=True).map(tuple),
    wait=st.sampled_from([0.0, 7.5, 1e9]),
)
def test_rows_of_several_timescales_are_the_sums_over_all_walks_for_each(
    events: list[Event], batch_size: int, rates: tuple[float, ...], wait: float
) -> None:
    memory = record(explicit_memory(NUM_NODES, "decay", rates), *batches_from(events, batch_size))
    at_time = last_time(events) + wait
    batches = batches_of(len(events), batch_size)
    wanted = timescale_matrices(events, batches, NUM_NODES, HOPS, rates, at_time)
    found_LNN = read_all(memory, at_time).transpose(0, 1).numpy()
    np.testing.assert_allclose(found_LNN, wanted, rtol=1e-9, atol=1e-290)


@pytest.mark.parametrize(
    ("hops", "rates"), [(2, (1e-3,)), (3, (1e-3,)), (3, (1e-3, 1e-5)), (3, (0.0, 1e-3, 1e-5))]
)
@pytest.mark.parametrize("width", [7, 30, 110])
def test_products_have_the_same_bits_wherever_among_others_a_row_lies(
    hops: int, rates: tuple[float, ...], width: int
) -> None:
    memory = record(
        Memory(60, Walk("decay", hops, rates), width), *batches_from(random_events(60, 400, 1e3), 20)
    )
    of_all = fetch_all(memory).products_ULL
    draw = torch.Generator().manual_seed(0)
    for count in (1, 2, 7, 31):
        some = torch.randperm(60, generator=draw)[:count].sort().values
        assert torch.equal(memory.look(some).products_ULL, of_all[some])


@pytest.mark.parametrize("kind", WALKS)
@pytest.mark.parametrize("error", [0.5, 0.25])
def test_inner_products_of_rows_are_those_of_the_walk_matrices(kind: WalkKind, error: float) -> None:
    """Theorem 2, for all pairs and layers of a graph of 200 nodes, in the precision that is used."""
    nodes, decay = 200, 1e-3
    width = math.ceil(24 / error**2 * math.log(4 ** (1 / 3) * (HOPS + 1) * nodes))
    batches = batches_from(random_events(nodes, 1500, until=1000.0), 20)
    memory = record(Memory(nodes, Walk(kind, HOPS, decay), width, seed=1), *batches)
    explicit = LiteralMemory(nodes, nodes, HOPS, decay, kind, torch.eye(nodes, dtype=torch.float64))
    for one in batches:
        explicit.record(one.src_B, one.dst_B, one.time_B)
    found, wanted = (
        rows.double().flatten(0, 1) @ rows.double().flatten(0, 1).t()
        for rows in (read_all(memory, 1000.0), explicit.rows_at(1000.0))
    )
    squares = wanted.diagonal()
    allowed = error * (squares[:, None] + squares) / 2
    assert ((found - wanted).abs() <= allowed).all()


# ---- extremes of time --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WALKS)
def test_thirty_years_of_unix_times_lose_nothing(kind: WalkKind) -> None:
    """Decay 1e-4 forgets within days; a third of the gaps are seconds, the others up to months."""
    draw = np.random.default_rng(3)
    gaps = np.where(draw.random(600) < 1 / 3, draw.uniform(0, 60, 600), draw.exponential(0.075 * YEAR, 600))
    times, ids = 0.9e9 + np.cumsum(gaps), draw.integers(0, 12, (600, 2)).tolist()
    events = [(src, dst, float(time)) for (src, dst), time in zip(ids, times, strict=True)]
    assert events[-1][2] - events[0][2] > 25 * YEAR
    memory = record(Memory(12, Walk(kind, HOPS, 1e-4), 16), *batches_from(events, 20))
    literal = LiteralMemory(12, 16, HOPS, 1e-4, kind, memory.table.rows_NLD[:, 0].double())
    for one in batches_from(events, 20):
        literal.record(one.src_B, one.dst_B, one.time_B)
    now = events[-1][2]
    for later in (now, now + 1e4, now + 30 * YEAR):
        found_NLD = read_all(memory, later)
        assert found_NLD.isfinite().all()
        assert row_deviation(found_NLD.numpy(), literal.rows_at(later).numpy()).max() < 1e-5


@pytest.mark.parametrize("kind", WALKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_batch_may_span_ten_thousand_decay_times(kind: WalkKind, dtype: torch.dtype) -> None:
    """λΔt = 1e4 between the first and the last event of one batch, and again before the next."""
    events = [(0, 1, 0.0), (1, 2, 1e8), (0, 1, 1e8), (3, 3, 1e8), (2, 4, 2e8), (0, 1, 2e8)]
    memory = Memory(6, Walk(kind, HOPS, 1e-4), 6, projection="identity", dtype=dtype)
    record(memory, *batches_from(events, 4))
    wanted = walk_matrices(events, batches_of(6, 4), 6, HOPS, kind, 1e-4, 2e8)
    found_LNN = read_all(memory, 2e8).transpose(0, 1).numpy()
    np.testing.assert_allclose(found_LNN, wanted, rtol=1e-6, atol=1e-40)
    assert memory.table.rows_NLD.isfinite().all()
    assert fetch_all(memory).products_ULL.isfinite().all()


def test_silent_nodes_keep_their_transition_probabilities() -> None:
    """Node 0 chose 1 and 2 with equal weight; 1e10 s later, e^(−1e9) of it left, it still does."""
    memory = record(explicit_memory(5, "transition", 0.1), batch((0, 1, 0.0), (0, 2, 0.0)))
    assert read_all(memory, 1e10)[0, 1].tolist() == [0, 0.5, 0.5, 0, 0]
    record(memory, batch((3, 0, 1e10)))
    rows_NLD = read_all(memory, 1e10)
    assert rows_NLD[3, 2].tolist() == [0, 0.5, 0.5, 0, 0], "3 goes on from 0 as 0 was before they met"
    assert rows_NLD[0, 1].tolist() == [0, 0, 0, 1, 0], "against the new event the old ones weigh nothing"


# ---- the random features -----------------------------------------------------------------------------------


class OneOfMany(LocalExchange):
    """Stands for a rank whose exchange is not used."""

    def __init__(self, rank: int, num_ranks: int) -> None:
        super().__init__()
        self.rank, self.num_ranks = rank, num_ranks


def features(num_nodes: int = 2500, width: int = 5, seed: int = 0, epoch: int = 0) -> Tensor:
    memory = Memory(num_nodes, Walk("count", 1, 0.0), width, seed=seed)
    memory.reset(epoch)
    return memory.table.rows_NLD[:, 0].clone()


@pytest.mark.parametrize("num_ranks", [2, 3, 4, 7])
def test_random_features_do_not_depend_on_who_owns_a_node(num_ranks: int) -> None:
    blocks = []
    for rank in range(num_ranks):
        memory = Memory(2500, Walk("count", 1, 0.0), 5, exchange=OneOfMany(rank, num_ranks))
        assert (memory.first_node, memory.stop_node) == Blocks(2500, num_ranks).range_of(rank)
        blocks.append(memory.table.rows_NLD[:, 0])
    assert torch.equal(torch.cat(blocks), features())


def test_random_features_depend_on_seed_epoch_and_node_alone() -> None:
    assert torch.equal(features(seed=4, epoch=2), features(seed=4, epoch=2))
    assert torch.equal(features(num_nodes=30), features()[:30]), "nor on how many nodes there are"
    for other in (features(seed=1), features(epoch=1), features().roll(1, 0), features().roll(1024, 0)):
        assert (other != features()).all()


def test_random_features_are_normal_with_variance_one_over_width() -> None:
    drawn_ND = features(num_nodes=20_000, width=40)
    scaled = drawn_ND.double() * 40**0.5
    assert abs(float(scaled.mean())) < 0.005
    assert float(scaled.var()) == pytest.approx(1, abs=0.01)
    assert float((scaled**4).mean()) == pytest.approx(3, abs=0.05)
    assert float(torch.corrcoef(scaled.t()).fill_diagonal_(0).abs().max()) < 0.04


@pytest.mark.parametrize("kind", WALKS)
def test_reset_forgets_every_event_and_draws_anew(kind: WalkKind) -> None:
    walk, batches = Walk(kind, HOPS, 1e-2), batches_from(random_events(9, 40, until=300.0), 7)
    memory = record(Memory(9, walk, 4, seed=3), *batches)
    first = copy_of_state(memory)
    memory.reset(1)
    fresh = Memory(9, walk, 4, seed=3)
    assert (memory.table.rows_NLD[:, 0] != fresh.table.rows_NLD[:, 0]).all()
    fresh.reset(1)
    assert_state(memory, copy_of_state(fresh))
    record(memory, *batches)
    memory.reset(0)
    assert_state(record(memory, *batches), first)


# ---- looking without recording -----------------------------------------------------------------------------


def test_a_batch_that_is_only_looked_at_changes_nothing() -> None:
    memory = record(Memory(5, Walk("decay", HOPS, 1e-2), 4), batch((0, 1, 5.0)))
    before = copy_of_state(memory)
    fetched = memory.look(torch.tensor([4, 1, 4, 2]))
    assert_state(memory, before)
    assert fetched.nodes_U.tolist() == [1, 2, 4]
    record(memory, batch((1, 2, 6.0)))


def test_fetched_rows_stay_as_they_were_before_the_batch() -> None:
    memory = Memory(3, Walk("count", 1, 0.0), 3, projection="identity")
    [fetched] = memory.run([batch((0, 1, 0.0))], [torch.tensor([0, 1])])
    assert fetched.rows_ULD[:, 1].count_nonzero() == 0
    assert read_all(memory, 0.0)[:, 1].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]


# ---- bad input ---------------------------------------------------------------------------------------------


NAN, INFINITE = float("nan"), float("inf")

REFUSED = {
    "id-too-large": batch((0, 1, 9.0), (5, 1, 9.0)),
    "id-negative": batch((0, -1, 9.0)),
    "time-nan": batch((0, 1, 9.0), (0, 1, NAN)),
    "time-before-the-recorded": batch((0, 1, 6.5)),
    "time-backwards-in-the-batch": batch((0, 1, 9.0), (0, 1, 8.0)),
}


@pytest.mark.parametrize("bad", REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("good_before", [[], [batch((3, 4, 8.0))]])
def test_a_bad_batch_is_refused_and_changes_nothing(bad: BatchEvents, good_before: list[BatchEvents]) -> None:
    """Also where it comes later in a run."""
    memory = record(Memory(5, Walk("transition", HOPS, 1e-2), 4), batch((0, 1, 5.0), (2, 3, 7.0)))
    before, stats = copy_of_state(memory), memory.exchange.stats.to_json()
    with refused():
        memory.plan([*good_before, bad])
    assert_state(memory, before)
    assert memory.exchange.stats.to_json() == stats
    record(memory, batch((0, 1, 7.0)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Memory(5, Walk("decay", 3, 0.1), 0),
        lambda: Memory(5, Walk("decay", 3, 0.1), -3),
        lambda: Memory(5, Walk("decay", 3, 0.1), 4, projection="identity"),
        lambda: Walk("random", 3, 0.1),  # type: ignore[arg-type]
        lambda: Walk("decay", 0, 0.1),
        lambda: Walk("decay", 3, -0.1),
        lambda: Walk("decay", 3, NAN),
        lambda: Walk("decay", 3, INFINITE),
        lambda: Walk("decay", 3, (1e-3, -0.1)),
        lambda: Walk("count", 3, (1e-3, 1e-5)),
    ],
)
def test_bad_settings_are_refused(make: Callable[[], object]) -> None:
    with refused():
        make()


@pytest.mark.parametrize("node", [-1, 5])
def test_further_nodes_are_checked_too(node: int) -> None:
    memory = Memory(5, Walk("decay", HOPS, 1e-2), 4)
    with refused():
        memory.plan([batch((0, 1, 0.0))], [torch.tensor([0, node])])


def test_infinite_times_are_refused() -> None:
    with refused():
        Memory(5, Walk("decay", HOPS, 1e-2), 4).plan([batch((0, 1, INFINITE))])


def test_times_before_the_first_event_are_refused() -> None:
    with refused():
        Memory(5, Walk("decay", HOPS, 1e-2), 4).plan([batch((0, 1, -1e9))])
