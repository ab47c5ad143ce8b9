"""Oracle, literal algorithms, additive form and published numbers hold one another in place."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reference.literal import (
    WALKS,
    LiteralMemory,
    LiteralTimescales,
    printed_decay_rows,
    printed_transition_rows,
    record_one_by_one,
)
from reference.oracle import Event, batches_of, batches_of_equal_times, timescale_matrices, walk_matrices
from tests.support.shared_folder import shared_folder

HOPS = 3
HALVE = math.log(2.0)  # decay under which a weight halves each second

Matrices = list[npt.NDArray[np.float64]]
Matrix = Sequence[Sequence[float]]


# ---- generated graphs --------------------------------------------------------------------------------------


@st.composite
def streams(draw: st.DrawFn, gaps: tuple[float, ...] = (0.0, 0.25, 1.0, 60.5, 1e6, 1e9)) -> list[Event]:
    """Few nodes, so that events repeat and loop; gaps are exact in binary, so that clocks do not round."""
    node = st.integers(0, draw(st.integers(0, 4)))
    time = draw(st.sampled_from([0.0, 5.0, 1.2e9]))
    events = []
    for src, dst, gap in draw(st.lists(st.tuples(node, node, st.sampled_from(gaps)), max_size=8)):
        time += gap
        events.append((src, dst, time))
    return events


decays = st.sampled_from([0.0, 1e-9, 1e-6, 1e-3, 1e-1])
batch_sizes = st.sampled_from([1, 1, 2, 3, 8])
NUM_NODES = 6  # node 5 never has an event


def columns(events: list[Event]) -> tuple[Tensor, Tensor, Tensor]:
    src, dst, time = zip(*events, strict=True) if events else ((), (), ())
    return (
        torch.tensor(src, dtype=torch.int64),
        torch.tensor(dst, dtype=torch.int64),
        torch.tensor(time, dtype=torch.float64),
    )


def last_time(events: list[Event]) -> float:
    return events[-1][2] if events else 0.0


def literal_matrices(
    events: list[Event], batches: list[int], nodes: int, walk: str, decay: float, at_time: float
) -> Matrices:
    """With P = identity the rows are the matrices."""
    memory = LiteralMemory(nodes, nodes, HOPS, decay, walk, torch.eye(nodes, dtype=torch.float64))
    for batch in sorted(set(batches)):
        memory.record(*columns([event for event, b in zip(events, batches, strict=True) if b == batch]))
    return list(memory.rows_at(at_time).transpose(0, 1).numpy())


def assert_same(found: Matrices, expected: Matrices) -> None:
    """Exponents reach 700 before exp gives 0, which magnifies their rounding to about 1e-12."""
    for layer, (matrix, wanted) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_allclose(matrix, wanted, rtol=1e-11, atol=1e-290, err_msg=f"layer {layer}")


# ---- all forms agree ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("walk", WALKS)
@settings(max_examples=150, deadline=None)
@given(events=streams(), batch_size=batch_sizes, decay=decays, wait=st.sampled_from([0.0, 7.5, 1e9]))
def test_literal_algorithm_sums_the_enumerated_walks(
    walk: str, events: list[Event], batch_size: int, decay: float, wait: float
) -> None:
    batches, at_time = batches_of(len(events), batch_size), last_time(events) + wait
    expected = walk_matrices(events, batches, NUM_NODES, HOPS, walk, decay, at_time)
    assert_same(literal_matrices(events, batches, NUM_NODES, walk, decay, at_time), expected)


def test_literal_timescales_sum_the_enumerated_walks_of_each() -> None:
    events, rates = [(0, 1, 0.0), (1, 2, 1.5), (2, 2, 1.5), (0, 3, 40.0), (1, 0, 41.0)], (0.0, 1e-3, 1e-1)
    memory = LiteralTimescales(NUM_NODES, NUM_NODES, HOPS, rates, torch.eye(NUM_NODES, dtype=torch.float64))
    for start in range(0, len(events), 2):
        memory.record(*columns(events[start : start + 2]))
    wanted = timescale_matrices(events, batches_of(5, 2), NUM_NODES, HOPS, rates, 50.0)
    assert len(wanted) == 1 + 3 * HOPS
    assert_same(list(memory.rows_at(50.0).transpose(0, 1).numpy()), wanted)


@pytest.mark.parametrize("walk", WALKS)
@settings(max_examples=60, deadline=None)
@given(events=streams(gaps=(0.0, 0.25, 1.0, 20.0)), batch_size=batch_sizes, decay=decays)
def test_additive_form_sums_the_enumerated_walks(
    walk: str, events: list[Event], batch_size: int, decay: float
) -> None:
    batches, at_time = batches_of(len(events), batch_size), last_time(events) + 2.0
    expected = walk_matrices(events, batches, NUM_NODES, HOPS, walk, decay, at_time)
    assert_same(additive_matrices(events, batches, NUM_NODES, walk, decay, at_time), expected)


def additive_matrices(
    events: list[Event], batches: list[int], nodes: int, walk: str, decay: float, at_time: float
) -> Matrices:
    """Stored rows only ever grow by w · message; t_ref stays at the first event: for short streams."""
    start = events[0][2] if events else at_time
    rows_LND = np.zeros((HOPS + 1, nodes, nodes))
    rows_LND[0] = np.eye(nodes)
    degree_N = np.zeros(nodes)
    for batch in sorted(set(batches)):
        messages_LND, growth_N = messages_of(rows_LND, degree_N, walk), np.zeros(nodes)
        for (u, v, time), of_batch in zip(events, batches, strict=True):
            if of_batch == batch:
                weight = 1.0 if walk == "count" else math.exp(decay * (time - start))
                for node, other in ((u, v), (v, u)):
                    rows_LND[1:, node] += weight * messages_LND[:-1, other]
                    growth_N[node] += weight
        degree_N += growth_N
    if walk == "decay":
        return [
            matrix * math.exp(-decay * layer * (at_time - start)) for layer, matrix in enumerate(rows_LND)
        ]
    return list(messages_of(rows_LND, degree_N, walk))


def messages_of(
    rows_LND: npt.NDArray[np.float64], degree_N: npt.NDArray[np.float64], walk: str
) -> npt.NDArray[np.float64]:
    messages_LND = rows_LND.copy()
    if walk == "transition":
        messages_LND[1:] /= np.where(degree_N > 0, degree_N, 1.0)[:, None]
    return messages_LND


@pytest.mark.parametrize("walk", WALKS)
def test_one_by_one_is_batches_of_one(walk: str) -> None:
    events = [(0, 1, 0.0), (1, 2, 0.0), (1, 1, 3.0), (2, 0, 4.0), (0, 1, 4.0)]
    memory = LiteralMemory(3, 3, HOPS, 0.1, walk, torch.eye(3, dtype=torch.float64))
    record_one_by_one(memory, *columns(events))
    expected = walk_matrices(events, batches_of(5, 1), 3, HOPS, walk, 0.1, 6.0)
    assert_same(list(memory.rows_at(6.0).transpose(0, 1).numpy()), expected)


@settings(max_examples=60, deadline=None)
@given(events=streams())
def test_groups_of_equal_times_give_the_walks_of_the_definition(events: list[Event]) -> None:
    """All sequences of directed events, kept if they are linked and their times decrease strictly."""
    events = events[:5]
    directed = [*events, *((v, u, time) for u, v, time in events)]
    expected = [np.eye(NUM_NODES), *(np.zeros((NUM_NODES, NUM_NODES)) for _ in range(HOPS))]
    for length in range(1, HOPS + 1):
        for steps in product(directed, repeat=length):
            if all(one[1] == two[0] and one[2] > two[2] for one, two in pairwise(steps)):
                expected[length][steps[0][0], steps[-1][1]] += 1
    found = walk_matrices(
        events, batches_of_equal_times(events), NUM_NODES, HOPS, "count", 0.0, last_time(events)
    )
    assert_same(found, expected)


@settings(max_examples=60, deadline=None)
@given(events=streams(), batch_size=batch_sizes, decay=decays)
def test_transition_rows_are_probabilities_that_waiting_does_not_change(
    events: list[Event], batch_size: int, decay: float
) -> None:
    batches, now = batches_of(len(events), batch_size), last_time(events)
    found = walk_matrices(events, batches, NUM_NODES, HOPS, "transition", decay, now)
    active = {node for u, v, _ in events for node in (u, v)}
    np.testing.assert_allclose(
        found[1].sum(1), [float(node in active) for node in range(NUM_NODES)], rtol=1e-14
    )
    assert all(matrix.min() >= 0 and matrix.sum(1).max() <= 1 + 1e-14 for matrix in found)
    later = walk_matrices(events, batches, NUM_NODES, HOPS, "transition", decay, now + 1e9)
    assert all(np.array_equal(one, two) for one, two in zip(found, later, strict=True))


# ---- worked by hand ----------------------------------------------------------------------------------------


def assert_by_hand(
    walk: str, events: list[Event], batches: list[int], at_time: float, expected: Sequence[Matrix]
) -> None:
    """`expected` begins with layer 1; layers it leaves out are zero."""
    nodes = len(expected[0])
    zeros = [np.zeros((nodes, nodes))] * (HOPS - len(expected))
    wanted = [np.eye(nodes), *(np.array(matrix) for matrix in expected), *zeros]
    found = walk_matrices(events, batches, nodes, HOPS, walk, HALVE, at_time)
    np.testing.assert_allclose(found, wanted, rtol=1e-14, atol=0)
    assert_same(literal_matrices(events, batches, nodes, walk, HALVE, at_time), wanted)


def test_decay_of_two_events_by_hand() -> None:
    events = [(0, 1, 0.0), (1, 2, 1.0)]
    # Read at 2, the first event weighs 1/4, the second 1/2.
    one_step: Matrix = [[0, 1 / 4, 0], [1 / 4, 0, 1 / 2], [0, 1 / 2, 0]]
    # Newest event first: only 2 → 1 → 0 has two steps, and scores 1/2 · 1/4.
    two_steps: Matrix = [[0, 0, 0], [0, 0, 0], [1 / 8, 0, 0]]
    assert_by_hand("decay", events, [0, 1], 2.0, [one_step, two_steps])
    # In one batch they do not chain; their weights stay those of their own times.
    assert_by_hand("decay", events, [0, 0], 2.0, [one_step])


def test_count_of_a_thrice_repeated_edge_by_hand() -> None:
    events = [(0, 1, 5.0), (0, 1, 5.0), (1, 0, 5.0)]
    # One by one, equal times chain by order: choose 1, 2 or 3 of the 3 events, C(3, l) walks from either end.
    assert_by_hand("count", events, [0, 1, 2], 5.0, [[[0, 3], [3, 0]], [[3, 0], [0, 3]], [[0, 1], [1, 0]]])
    # First two in one batch: a 2-step walk takes the third event, then one of the first two.
    assert_by_hand("count", events, [0, 0, 1], 5.0, [[[0, 3], [3, 0]], [[2, 0], [0, 2]]])
    # All at once, as the definition with its strictly decreasing times has it: no walk of two steps.
    assert_by_hand("count", events, [0, 0, 0], 5.0, [[[0, 3], [3, 0]]])


def test_count_of_self_loops_by_hand() -> None:
    # Each loop can be walked in two ways: 2 + 2 walks of one step, 2 · 2 of two.
    assert_by_hand("count", [(0, 0, 1.0), (0, 0, 2.0)], [0, 1], 2.0, [[[4]], [[4]]])


def test_transition_of_three_events_by_hand() -> None:
    events = [(0, 1, 0.0), (1, 2, 1.0), (0, 1, 2.0)]
    # Weights, the newest event taken as 1: node 0 chooses among 1/4 and 1, both leading to 1; node 1 among
    # 1/4 (to 0), 1/2 (to 2) and 1 (to 0), in all 7/4; node 2 has one event.
    one_step: Matrix = [[0, 1, 0], [5 / 7, 0, 2 / 7], [0, 1, 0]]
    # From 0: by the event at 2 (1 of 5/4 = 4/5) to 1, which before it chose among 1/4 (to 0) and 1/2 (to 2),
    # so 1/3 and 2/3; by the event at 0 there is no way on. From 1: by the event at 2 (4/7) to 0, then by the
    # event at 0 back; by the others no way on. From 2: to 1 at time 1, then to 0 at time 0, no other choice.
    two_steps: Matrix = [[4 / 15, 0, 8 / 15], [0, 4 / 7, 0], [1, 0, 0]]
    assert_by_hand("transition", events, [0, 1, 2], 9.0, [one_step, two_steps])
    # The first two in one batch: 2 → 1 → 0 is gone; before the last batch node 1 chose as above.
    two_steps = [[4 / 15, 0, 8 / 15], [0, 4 / 7, 0], [0, 0, 0]]
    assert_by_hand("transition", events, [0, 0, 1], 9.0, [one_step, two_steps])


def test_transition_towards_a_new_node_ends_there() -> None:
    # 2 is new when it meets 1: the walk 1 → 2 has no second step, while 2 → 1 → 0 has.
    events = [(0, 1, 0.0), (1, 2, 1.0)]
    one_step: Matrix = [[0, 1, 0], [1 / 3, 0, 2 / 3], [0, 1, 0]]
    two_steps: Matrix = [[0, 0, 0], [0, 0, 0], [1, 0, 0]]
    assert_by_hand("transition", events, [0, 1], 1.0, [one_step, two_steps])


def test_scores_of_long_ago_vanish_and_probabilities_do_not() -> None:
    events = [(0, 1, 0.0), (0, 2, 1e9)]
    gone, sure = [[0.0] * 3] * 3, [[0, 0, 1], [1, 0, 0], [1, 0, 0]]
    assert_by_hand("decay", events, [0, 1], 2e9, [gone])
    # 0 prefers 2 by e^(10^9 · ln 2); 1 has nothing but its old event, though its batch ended 1e9 s later.
    assert_by_hand("transition", events, [0, 0], 2e9, [sure])
    assert_by_hand("transition", events, [0, 1], 2e9, [sure, [[0, 0, 0], [0, 0, 0], [0, 1, 0]]])


def test_unknown_walks_and_early_readings_are_refused() -> None:
    with pytest.raises(ValueError, match="decay, count, transition"):
        walk_matrices([], [], 1, 1, "random", 0.0, 0.0)
    with pytest.raises(ValueError, match="decay, count, transition"):
        LiteralMemory(1, 1, 1, 0.0, "random", torch.eye(1))
    with pytest.raises(AssertionError, match="before the last event"):
        walk_matrices([(0, 0, 2.0)], [0], 1, 1, "decay", 0.0, 1.0)


# ---- what the paper prints ---------------------------------------------------------------------------------


def printed(rows: Callable[..., list[Tensor]], events: list[Event], nodes: int, decay: float) -> Matrices:
    return [matrix.numpy() for matrix in rows(events, torch.eye(nodes, dtype=torch.float64), HOPS, decay)]


@settings(max_examples=60, deadline=None)
@given(events=streams(gaps=(0.0, 0.25, 1.0, 20.0)), decay=decays)
def test_algorithms_as_printed_sum_the_enumerated_walks(events: list[Event], decay: float) -> None:
    events = [(u, v, time - events[0][2]) for u, v, time in events]
    now, batches = last_time(events), batches_of(len(events), 1)
    expected = walk_matrices(events, batches, NUM_NODES, HOPS, "decay", decay, now)
    assert_same(printed(printed_decay_rows, events, NUM_NODES, decay), expected)
    events = [event for event in events if event[0] != event[1]]
    batches = batches_of(len(events), 1)
    expected = walk_matrices(events, batches, NUM_NODES, HOPS, "transition", decay, now)
    assert_same(printed(printed_transition_rows, events, NUM_NODES, decay), expected)


def test_printed_transition_gives_a_self_loop_more_than_its_share() -> None:
    events = [(0, 1, 0.0), (0, 0, 0.0)]
    # Three traversals of equal weight leave 0, two of them by the loop; the loop, being newer, leads on to 1.
    one_step: Matrix = [[2 / 3, 1 / 3], [1, 0]]
    two_steps: Matrix = [[0, 2 / 3], [0, 0]]
    assert_by_hand("transition", events, [0, 1], 0.0, [one_step, two_steps])
    # Printed, with d_0 = 1: twice in a row, half of the row goes to the loop.
    assert printed(printed_transition_rows, events, 2, HALVE)[1].tolist() == [[3 / 4, 1 / 4], [1, 0]]


# ---- what the published implementation computed ------------------------------------------------------------


@pytest.mark.parametrize("name", ["uci", "canparl"])
def test_literal_decay_reproduces_the_published_memory(name: str) -> None:
    path = shared_folder() / "reference" / f"{name}_golden.npz"
    if not path.is_file():
        pytest.skip(f"no golden numbers at {path}")
    golden = np.load(path)
    nodes, width = golden["H0"].shape
    size, hops = int(golden["batch_size"]), int(golden["hops"])
    src, dst, time = (torch.from_numpy(golden[key]) for key in ("src", "dst", "time"))
    memory = LiteralMemory(
        nodes, width, hops, float(golden["decay"]), "decay", torch.from_numpy(golden["H0"])
    )
    for start in range(0, int(golden["warm_batches"]) * size, size):
        batch = slice(start, start + size)
        memory.record(src[batch], dst[batch], time[batch])
    assert memory.time == golden["memory_time_after_warm"]
    rows_NLD = memory.rows_at(float(golden["memory_time_after_warm"])).numpy()
    for layer in range(1, hops + 1):
        wanted_ND = golden[f"memory_after_warm_layer{layer}"]
        deviation = np.abs(rows_NLD[:, layer] - wanted_ND).max() / np.abs(wanted_ND).max()
        assert deviation < 1e-6, f"layer {layer} deviates by {deviation:.1e} of its largest entry"
