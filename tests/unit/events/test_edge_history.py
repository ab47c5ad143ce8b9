"""The edge history against a plain loop over the events."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.event_logs import random_log
from tpnet_dist.events.edge_history import EdgeHistory, edge_ends, edge_keys, places_in
from tpnet_dist.events.view import EventView

NUM_NODES, LAST = 4, 40


@st.composite
def some_events(draw):
    """(position, src, dst) in order of position, with gaps."""
    positions = sorted(draw(st.sets(st.integers(0, LAST), max_size=25)))
    ends = st.tuples(st.integers(0, NUM_NODES - 1), st.integers(0, NUM_NODES - 1))
    return [(position, *draw(ends)) for position in positions]


def columns_of(events):
    columns = np.array(events, dtype=np.int64).reshape(-1, 3).T
    return columns[1].astype(np.int32), columns[2].astype(np.int32), columns[0]


def history_of(events):
    return EdgeHistory(*columns_of(events), num_nodes=NUM_NODES)


def literal_last(events, src, dst, before):
    return max((p for p, s, d in events if (s, d) == (src, dst) and p < before), default=-1)


ALL_PAIRS = [(src, dst) for src in range(NUM_NODES) for dst in range(NUM_NODES)]
ALL_SRC, ALL_DST = np.array(ALL_PAIRS, dtype=np.int32).T


@settings(deadline=None)
@given(some_events())
def test_edges_are_distinct_and_sorted_with_their_first_positions(events):
    history = history_of(events)
    firsts = {}
    for position, src, dst in events:
        firsts.setdefault((src, dst), position)
    src, dst = edge_ends(history.keys_G, NUM_NODES)
    assert list(zip(src.tolist(), dst.tolist(), strict=True)) == sorted(firsts)
    assert history.first_positions_G.tolist() == [firsts[edge] for edge in sorted(firsts)]


@settings(deadline=None)
@given(some_events(), st.integers(-2, LAST + 3))
def test_the_last_event_before_a_position_is_that_of_the_loop_for_every_pair(events, before):
    expected = [literal_last(events, src, dst, before) for src, dst in ALL_PAIRS]
    history = history_of(events)
    assert history.last_before(ALL_SRC, ALL_DST, before).tolist() == expected
    each = np.full(len(ALL_PAIRS), before)
    assert history.last_before(ALL_SRC, ALL_DST, each).tolist() == expected


@settings(deadline=None)
@given(some_events(), st.lists(st.integers(0, LAST + 1), min_size=16, max_size=16))
def test_every_query_may_have_a_position_of_its_own(events, before):
    found = history_of(events).last_before(ALL_SRC, ALL_DST, np.array(before))
    assert found.tolist() == [
        literal_last(events, *pair, p) for pair, p in zip(ALL_PAIRS, before, strict=True)
    ]


def test_parts_of_a_log_make_the_history_of_their_events_together(tmp_path):
    log = random_log(tmp_path, 300, 12, events_per_shard=37)
    without = np.arange(12) == 3
    parts = EventView(log, 0, 150, without), EventView(log, 200, 300)
    history = EdgeHistory.of(*parts)
    joined = [part.read(0, len(part)) for part in parts]
    src, dst = (np.concatenate([getattr(part.columns, name) for part in joined]) for name in ("src", "dst"))
    index = np.concatenate([part.index for part in joined])
    expected = EdgeHistory(src, dst, index, num_nodes=12)
    np.testing.assert_array_equal(history.keys_G, expected.keys_G)
    np.testing.assert_array_equal(history.first_positions_G, expected.first_positions_G)
    np.testing.assert_array_equal(history.last_before(src, dst, 250), expected.last_before(src, dst, 250))
    with pytest.raises(ValueError, match="must rise"):
        EdgeHistory.of(*reversed(parts))


def test_keys_of_the_largest_ids_come_apart_again():
    num_nodes = 2**31 - 1
    src, dst = (
        np.array([num_nodes - 1, 0, 5], np.int32),
        np.array([num_nodes - 1, num_nodes - 1, 0], np.int32),
    )
    for found, wanted in zip(edge_ends(edge_keys(src, dst, num_nodes), num_nodes), (src, dst), strict=True):
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, wanted)


def test_places_of_missing_values_are_minus_one():
    values = np.array([1, 2, 3, 5, 6])
    assert places_in(np.array([2, 5]), values).tolist() == [-1, 0, -1, 1, -1]
    assert places_in(np.empty(0, np.int64), values).tolist() == [-1] * 5
