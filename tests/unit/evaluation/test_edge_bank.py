"""EdgeBank against a set of the edges seen, batch by batch."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.event_logs import random_log
from tests.support.sentences import refused
from tpnet_dist.evaluation.edge_bank import EdgeBank
from tpnet_dist.events.edge_history import EdgeHistory
from tpnet_dist.events.view import EventView

NUM_NODES = 4
ALL_PAIRS = [(src, dst) for src in range(NUM_NODES) for dst in range(NUM_NODES)]
ALL_SRC, ALL_DST = np.array(ALL_PAIRS, dtype=np.int32).T


def bank_of(positions, edges, times):
    src, dst = np.array(edges, np.int32).reshape(-1, 2).T
    index = np.array(positions, np.int64)
    return EdgeBank(EdgeHistory(src, dst, index, num_nodes=NUM_NODES), index, np.asarray(times))


@st.composite
def timed_edges(draw):
    edges = draw(st.lists(st.sampled_from(ALL_PAIRS), min_size=1, max_size=30))
    gaps = draw(st.lists(st.integers(0, 3), min_size=len(edges), max_size=len(edges)))
    steps = draw(st.lists(st.integers(1, 3), min_size=len(edges), max_size=len(edges)))
    times = np.cumsum(gaps)
    return np.cumsum(steps) - 1, edges, times * 0.5 if draw(st.booleans()) else times


def memberships(remembered):
    return [float(pair in remembered) for pair in ALL_PAIRS]


@settings(deadline=None)
@given(timed_edges(), st.integers(0, 90))
def test_unlimited_scores_are_membership_in_the_set_of_edges_seen(log, before):
    positions, edges, _ = log
    scores = bank_of(*log).unlimited(ALL_SRC, ALL_DST, before)
    assert scores.dtype == np.float32
    assert scores.tolist() == memberships(
        {edge for p, edge in zip(positions, edges, strict=True) if p < before}
    )


@settings(deadline=None)
@given(timed_edges(), st.integers(0, 90), st.sampled_from([0.15, 0.3, 0.5, 1.0]))
def test_window_scores_are_membership_in_the_set_of_edges_since_the_quantile(log, before, share):
    positions, edges, times = log
    num_seen = int((positions < before).sum())
    start = np.quantile(times[:num_seen], 1 - share) if num_seen else 0
    remembered = {
        edge for edge, time in zip(edges[:num_seen], times[:num_seen], strict=True) if time >= start
    }
    scores = bank_of(*log).time_window(ALL_SRC, ALL_DST, before, share=share)
    assert scores.dtype == np.float32
    assert scores.tolist() == memberships(remembered)


@settings(deadline=None)
@given(timed_edges(), st.integers(0, 90))
def test_repeat_threshold_scores_are_of_edges_seen_as_often_as_the_average(log, before):
    positions, edges, _ = log
    count = Counter(edge for p, edge in zip(positions, edges, strict=True) if p < before)
    remembered = {edge for edge, number in count.items() if number >= count.total() / len(count)}
    assert bank_of(*log).repeat_threshold(ALL_SRC, ALL_DST, before).tolist() == memberships(remembered)


@settings(deadline=None)
@given(timed_edges(), st.integers(0, 90))
def test_repeat_interval_scores_are_of_edges_seen_within_the_mean_gap(log, before):
    positions, edges, times = log
    times_of = defaultdict(list)
    for p, edge, time in zip(positions, edges, times, strict=True):
        if p < before:
            times_of[edge].append(float(time))
    gaps = [np.diff(seen).mean() if len(seen) > 1 else 0.0 for seen in times_of.values()]
    newest = max((seen[-1] for seen in times_of.values()), default=0.0)
    start = newest - np.mean(gaps) if gaps else 0.0
    # a time that is a rounding away from the window's start is on either side
    assume(all(seen[-1] == newest or abs(seen[-1] - start) > 1e-9 for seen in times_of.values()))
    remembered = {edge for edge, seen in times_of.items() if seen[-1] >= start}
    assert bank_of(*log).repeat_interval(ALL_SRC, ALL_DST, before).tolist() == memberships(remembered)


def test_parts_of_a_log_are_remembered_together(tmp_path):
    log = random_log(tmp_path, 300, NUM_NODES, events_per_shard=37)
    parts = EventView(log, 0, 150, np.arange(NUM_NODES) == 3), EventView(log, 200, 300)
    joined = [part.read(0, len(part)) for part in parts]
    src, dst, times = (
        np.concatenate([getattr(part.columns, name) for part in joined]) for name in ("src", "dst", "time")
    )
    index = np.concatenate([part.index for part in joined])
    by_hand, bank = bank_of(index, np.stack([src, dst], 1), times), EdgeBank.of(*parts)
    for before in (0, 20, 180, 205, 300):
        for score in ("unlimited", "time_window", "repeat_interval", "repeat_threshold"):
            options = {"share": 0.05} if score == "time_window" else {}
            found, wanted = (
                getattr(one, score)(ALL_SRC, ALL_DST, before, **options) for one in (bank, by_hand)
            )
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("share", [0, -0.1, 1.1, float("nan")])
def test_a_share_outside_0_to_1_is_refused(share):
    with refused():
        bank_of([0], [(0, 1)], [5]).time_window(ALL_SRC, ALL_DST, 1, share=share)
