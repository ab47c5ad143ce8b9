"""Negatives against sets and lists of candidates, number by number, and for any cut of a batch."""

from collections import Counter
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.event_logs import random_log
from tests.support.seen_candidates import candidates_of
from tpnet_dist.events.edge_history import EdgeHistory, edge_keys
from tpnet_dist.events.negatives import RandomDestinations, SeenEdges
from tpnet_dist.events.shards import EventColumns
from tpnet_dist.events.time_group_edges import TimeGroupEdges
from tpnet_dist.events.view import EventView, SelectedEvents
from tpnet_dist.keyed_random import SampleKey, keyed_choice, keyed_integers

KEY = SampleKey(seed=3, epoch=1)
NUM_NODES = 6


def integer(event, *, stream, slot=0, below):
    return int(keyed_integers(KEY, np.array([event]), stream=stream, count=slot + 1, below=below)[0, slot])


@settings(deadline=None)
@given(
    nodes=st.sets(st.integers(0, 9), min_size=1),
    events=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 9)), max_size=6),
    count=st.integers(1, 5),
)
def test_destinations_are_those_of_a_list_without_the_avoided_one(nodes, events, count):
    index = np.array([event for event, _ in events], np.int64)
    avoided = np.array([node for _, node in events], np.int32)
    destinations = RandomDestinations(np.array([*nodes, *nodes]))
    free = destinations.draw(KEY, index, count)
    others = destinations.draw(KEY, index, count, avoid_B=avoided)
    assert free.shape == others.shape == (len(events), count)
    assert free.dtype == others.dtype == np.int32
    for row, (event, node) in enumerate(events):
        for drawn, candidates in (
            (free[row], sorted(nodes)),
            (others[row], sorted(nodes - {node}) or sorted(nodes)),
        ):
            assert drawn.tolist() == [
                candidates[integer(event, stream=0, slot=slot, below=len(candidates))]
                for slot in range(count)
            ]


def test_each_destination_but_the_true_one_is_drawn_equally_often():
    destinations = RandomDestinations(np.array([3, 5, 8, 11]))
    index = np.arange(4000)
    drawn = destinations.draw(KEY, index, 10, avoid_B=np.full(4000, 5, np.int32))
    counts = Counter(drawn.ravel().tolist())
    assert set(counts) == {3, 8, 11}
    # deviation of each count: 94
    assert all(abs(number - 40_000 / 3) < 400 for number in counts.values())


def test_the_destinations_of_a_view_are_the_distinct_ones_of_its_events(tmp_path):
    log = random_log(tmp_path, 60, 100, events_per_shard=17)
    parts = EventView(log, 5, 25, np.arange(100) < 30), EventView(log, 40, 50)
    expected = {node for part in parts for node in part.read(0, len(part)).columns.dst.tolist()}
    assert RandomDestinations.of(*parts).destinations_U.tolist() == sorted(expected)


def test_an_empty_universe_is_refused(tmp_path):
    log = random_log(tmp_path, 10, 5)
    with pytest.raises(ValueError, match="at least one event"):
        RandomDestinations.of(EventView(log, 3, 3))
    with pytest.raises(ValueError, match="at least one event"):
        SeenEdges(EdgeHistory.of(EventView(log, 3, 3)), TimeGroupEdges.of(EventView(log, 3, 3)))


pairs = st.tuples(st.integers(0, NUM_NODES - 1), st.integers(0, NUM_NODES - 1))
streams = st.lists(pairs, min_size=1, max_size=60)


def history_of(positions, edges):
    src, dst = np.array(edges, np.int32).reshape(-1, 2).T
    return EdgeHistory(src, dst, np.array(positions, np.int64), num_nodes=NUM_NODES)


def seen_edges(positions, edges, *, happened=None, known=None):
    """`happened`: time groups and edges of all events; if not given, the universe's, one group each."""
    time_groups, of_all = (positions, edges) if happened is None else happened
    src, dst = np.array(of_all, np.int32).reshape(-1, 2).T
    at = TimeGroupEdges(np.array(list(time_groups), np.int64), edge_keys(src, dst, NUM_NODES))
    return SeenEdges(history_of(positions, edges), at, known=known)


def batch_of(edges, positions, time_groups=None):
    src, dst = np.array(edges, np.int32).reshape(-1, 2).T
    time_groups = np.array(list(positions if time_groups is None else time_groups), np.int64)
    columns = EventColumns(src, dst, time_groups, np.zeros(len(src), np.float32))
    return SelectedEvents(np.array(positions, np.int64), time_groups, columns)


def drawn_edges(seen, batch, start=0, stop=None):
    found = seen.draw(KEY, batch, start, len(batch) if stop is None else stop)
    assert all(column.dtype == np.int32 for column in found)
    return list(zip(*(column.tolist() for column in found), strict=True))


def chosen(positions, candidates, *, stream):
    """Distinct ones, as long as there are so many."""
    drawn = keyed_choice(KEY, np.array(positions, np.int64), stream=stream, below=len(candidates))
    return [candidates[place] for place in drawn]


def literal_negatives(universe, known, true, positions, first_time_group):
    """`universe`: (position, edge) of its events; candidates and pairs as lists."""
    candidates = []
    for position, edge in universe:
        if position < first_time_group and edge not in [*candidates, *true, *known]:
            candidates.append(edge)
    missing = max(0, len(positions) - len(candidates))
    sources = sorted({src for _, (src, _) in universe})
    destinations = sorted({dst for _, (_, dst) in universe})
    every_pair = [(src, dst) for src in sources for dst in destinations]
    other_pairs = [pair for pair in every_pair if pair not in true] or every_pair
    random_pairs = chosen(positions[:missing], other_pairs, stream=2)
    return random_pairs + (chosen(positions[missing:], candidates, stream=1) if candidates else [])


@settings(deadline=None)
@given(
    edges=streams,
    left_out=st.integers(2, 7),
    known=st.none() | st.sets(pairs, max_size=8),
    bounds=st.tuples(st.integers(0, 60), st.integers(1, 12)),
    new_times=st.lists(st.booleans(), min_size=60, max_size=60),
)
def test_negatives_are_those_of_a_list_of_candidates(edges, left_out, known, bounds, new_times):
    is_first = [True, *new_times]
    time_groups = [max(p for p in range(place + 1) if is_first[p]) for place in range(len(edges))]
    universe = [(p, edge) for p, edge in enumerate(edges) if p % left_out != 1]
    start = min(bounds[0], len(edges) - 1)
    here = slice(start, min(start + bounds[1], len(edges)))
    positions, span = range(here.start, here.stop), time_groups[here]
    seen = seen_edges(
        *zip(*universe, strict=True),
        happened=(time_groups, edges),
        known=None if known is None else history_of(range(len(known)), sorted(known)),
    )
    true = [edge for edge, group in zip(edges, time_groups, strict=True) if span[0] <= group <= span[-1]]
    expected = literal_negatives(universe, known or set(), true, positions, span[0])
    batch = batch_of(edges[here], positions, span)
    # after a batch of another time, and after itself
    for before in (batch_of(edges[-1:], [len(edges) - 1], time_groups[-1:]), batch):
        drawn_edges(seen, before)
        assert drawn_edges(seen, batch) == expected


def test_no_negative_is_an_event_of_the_same_time_beyond_the_batch():
    """Times 0 0 0 0 | 4 4 4 4 4 4, batches of two: the second group has most edges of the first."""
    edges = [(0, 1), (0, 2), (0, 3), (0, 4), (0, 1), (0, 2), (0, 3), (5, 5), (0, 1), (0, 2)]
    seen = seen_edges(range(10), edges, happened=([0] * 4 + [4] * 6, edges))
    for start in (4, 6, 8):
        here = slice(start, start + 2)
        drawn = drawn_edges(seen, batch_of(edges[here], range(start, start + 2), [4, 4]))
        # only (0, 4) is left of what was seen; the other place has a random pair
        assert drawn[1] == (0, 4)
        assert drawn[0] not in edges[4:]


@settings(deadline=None)
@given(edges=streams, first=st.integers(0, 59), size=st.integers(1, 20), cuts=st.lists(st.integers(0, 20)))
def test_slices_of_a_batch_draw_what_the_whole_batch_draws(edges, first, size, cuts):
    first = min(first, len(edges) - 1)
    batch, positions = edges[first : first + size], range(first, min(first + size, len(edges)))
    seen, whole = seen_edges(range(len(edges)), edges), batch_of(batch, positions)
    borders = [0, *sorted(min(cut, len(batch)) for cut in cuts), len(batch)]
    parts = [drawn_edges(seen, whole, *bounds) for bounds in pairwise(borders)]
    assert list(chain.from_iterable(parts)) == drawn_edges(seen, whole)


def test_each_candidate_is_drawn_equally_often_in_each_place():
    past = [(src, dst) for src in range(5) for dst in range(5)]
    batch = [(0, 0), (2, 3), (5, 5)]
    seen = seen_edges(range(28), past + batch)
    counts = [Counter(), Counter(), Counter()]
    for epoch in range(3000):
        found = seen.draw(SampleKey(0, epoch), batch_of(batch, range(25, 28)), 0, 3)
        for count, edge in zip(counts, zip(*(column.tolist() for column in found), strict=True), strict=True):
            count[edge] += 1
    expected = 3000 / 23
    for count in counts:
        assert set(count) == set(past) - set(batch)
        # 22 degrees of freedom: passed once in 10,000 keys
        assert sum((number - expected) ** 2 / expected for number in count.values()) < 56


@settings(deadline=None)
@given(edges=streams, first=st.integers(0, 59), size=st.integers(1, 20))
def test_no_candidate_is_drawn_twice(edges, first, size):
    first = min(first, len(edges) - 1)
    batch = batch_of(edges[first : first + size], range(first, min(first + size, len(edges))))
    seen = seen_edges(range(len(edges)), edges)
    candidates = set(zip(*(column.tolist() for column in candidates_of(seen, batch)), strict=True))
    drawn = drawn_edges(seen, batch)
    of_candidates = drawn[max(0, len(drawn) - len(candidates)) :]
    assert len(set(of_candidates)) == len(of_candidates) and set(of_candidates) <= candidates


def test_pairs_are_kept_when_every_pair_is_an_edge_of_the_batch():
    seen = seen_edges([0], [(2, 3)])
    assert drawn_edges(seen, batch_of([(2, 3), (2, 3)], [0, 1])) == [(2, 3), (2, 3)]


def test_no_candidate_is_left_when_every_edge_is_known():
    edges = [(src, dst) for src in range(4) for dst in range(4)]
    seen = seen_edges(range(16), edges, known=history_of(range(16), edges))
    drawn = drawn_edges(seen, batch_of(edges[10:], range(10, 16)))
    assert len(drawn) == 6 and not set(drawn) & set(edges[10:])
