"""The split is compared with DyGLib's rule, written out in memory with sets and masks."""

import random
import struct
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.support.event_logs import random_log, write_log
from tests.support.sentences import refused
from tpnet_dist.events import split as split_module
from tpnet_dist.events.split import split_log, time_quantile


def dyglib_split(log, val_share, test_share, new_node_share, seed):
    """Returns the rule's quantiles, node sets and event numbers."""
    events = log.read(0, len(log))
    src, dst, times = events.src.tolist(), events.dst.tolist(), events.time
    val_time, test_time = np.quantile(times, [1 - val_share - test_share, 1 - test_share])
    late = times > val_time
    all_nodes = set(src) | set(dst)
    late_nodes = set(events.src[late].tolist()) | set(events.dst[late].tolist())
    wanted = min(int(new_node_share * len(all_nodes)), len(late_nodes))
    new_nodes = set(random.Random(seed).sample(sorted(late_nodes), wanted))
    touches_new = np.array([s in new_nodes or d in new_nodes for s, d in zip(src, dst, strict=True)])
    train = np.flatnonzero((times <= val_time) & ~touches_new)
    val = np.flatnonzero((times > val_time) & (times <= test_time))
    test = np.flatnonzero(times > test_time)
    seen = set(events.src[train].tolist()) | set(events.dst[train].tolist())
    unseen = all_nodes - seen
    inductive = np.array([s in unseen or d in unseen for s, d in zip(src, dst, strict=True)])
    return val_time, test_time, new_nodes, unseen, train, val, test, inductive


def events_of(view):
    return view.read(0, len(view)).index.tolist()


def bits(number):
    return struct.pack("<d", number)


@settings(max_examples=60, deadline=None)
@given(
    num_events=st.integers(8, 200),
    num_nodes=st.integers(2, 40),
    shares=st.sampled_from([(0.15, 0.15), (0.1, 0.2), (0.3, 0.3), (0.01, 0.4)]),
    new_node_share=st.sampled_from([0.0, 0.1, 0.35]),
    seed=st.integers(0, 5),
    whole_times=st.booleans(),
    data=st.data(),
)
def test_random_logs_split_as_by_dyglibs_rule(
    tmp_path_factory, num_events, num_nodes, shares, new_node_share, seed, whole_times, data
):
    gaps = st.integers(0, 3) if whole_times else st.sampled_from([0.0, 0.0, 0.1, 1 / 3])
    times = np.cumsum(data.draw(st.lists(gaps, min_size=num_events, max_size=num_events)))
    src, dst = np.random.default_rng(seed).integers(0, num_nodes, (2, num_events))
    log = write_log(tmp_path_factory.mktemp("log"), src, dst, times, events_per_shard=50)
    val_time, test_time, new_nodes, unseen, train, val, test, inductive = dyglib_split(
        log, *shares, new_node_share, seed
    )
    assume(len(train) and len(val) and len(test))
    with patch.object(split_module, "EVENTS_PER_ROW_GROUP", 8):
        split = split_log(
            log, val_share=shares[0], test_share=shares[1], new_node_share=new_node_share, seed=seed
        )
    assert (split.val_time, split.test_time) == (val_time, test_time)
    assert [events_of(part) for part in (split.train, split.val, split.test)] == [
        part.tolist() for part in (train, val, test)
    ]
    assert set(np.flatnonzero(split.new_nodes)) == new_nodes
    assert set(np.flatnonzero(split.unseen_nodes)) & {*src, *dst} == unseen
    for part, index in ((split.val, val), (split.test, test)):
        columns = part.read(0, len(part)).columns
        np.testing.assert_array_equal(split.is_inductive(columns), inductive[index])
        assert events_of(split.inductive(part)) == index[inductive[index]].tolist()


shares_of_time = st.floats(0, 1) | st.sampled_from([0.0, 0.5, 0.7, 0.85, 1 - 0.15 - 0.15, 1.0])
whole = st.integers(-(2**61), 2**61) | st.integers(0, 10)
# adding 0.0 makes -0.0 the 0.0 that times are
fractional = (st.floats(-1e300, 1e300) | st.floats(0, 1)).map(lambda time: time + 0.0)


@settings(max_examples=80, deadline=None)
@given(
    times=st.lists(whole, min_size=1, max_size=40) | st.lists(fractional, min_size=1, max_size=40),
    share=shares_of_time,
)
@example(times=[0.1, 0.5], share=0.5)
@example(times=[1, 2**53 + 1], share=0.5)
def test_a_time_quantile_is_numpys_to_the_last_bit(tmp_path_factory, times, share):
    times = np.sort(np.array(times))
    ends = np.zeros(len(times), np.int32)
    log = write_log(tmp_path_factory.mktemp("log"), ends, ends, times, events_per_shard=7)
    assert bits(time_quantile(log, share)) == bits(np.quantile(times, [share])[0])


def test_ties_at_the_border_stay_together_in_the_earlier_part(tmp_path):
    times = [0, 1, 2, 3, 4, 5, 5, 5, 5, 6, 7, 7, 7, 8, 9, 9]
    log = write_log(tmp_path, range(16), range(16), times, events_per_shard=3)
    split = split_log(log, val_share=0.3, test_share=0.2, new_node_share=0)
    assert (split.val_time, split.test_time) == (5.0, 7.0)
    parts = [events_of(part) for part in (split.train, split.val, split.test)]
    assert parts == [list(range(9)), [9, 10, 11, 12], [13, 14, 15]]


def test_borders_are_found_across_row_groups_with_few_reads(tmp_path, monkeypatch):
    num_events = 450_000
    times = np.sort(np.random.default_rng(0).integers(0, 50, num_events))
    nodes = np.arange(num_events) % 100
    log = write_log(tmp_path, nodes, nodes, times, events_per_shard=200_000)
    reads, read = [], log.read
    monkeypatch.setattr(log, "read", lambda start, stop: reads.append((start, stop)) or read(start, stop))
    split = split_log(log)
    num_reads = len(reads)
    val_time, test_time = np.quantile(times, [0.7, 0.85])
    assert split.val.start == np.searchsorted(times, val_time, side="right")
    assert split.test.start == np.searchsorted(times, test_time, side="right")
    assert num_reads <= 4 + 2 * (3 + 1) + 1  # the last: which events are simultaneous with the first late one


def test_nanosecond_times_beyond_float_precision_split_as_numpy_compares_them(tmp_path):
    times = 1_700_000_000_000_000_000 + np.arange(40) * 60
    log = write_log(tmp_path, range(40), range(40), times)
    with patch.object(split_module, "EVENTS_PER_ROW_GROUP", 1):
        split = split_log(log, new_node_share=0)
    val_time, test_time = np.quantile(times, [1 - 0.15 - 0.15, 1 - 0.15])
    assert split.val.start == np.count_nonzero(times <= val_time)
    assert split.test.start == np.count_nonzero(times <= test_time)


def test_the_seed_alone_decides_which_nodes_are_new(tmp_path):
    log = random_log(tmp_path, 2000, 200)
    first, again, other = (split_log(log, seed=seed) for seed in (3, 3, 4))
    assert first.new_nodes.sum() == 20
    np.testing.assert_array_equal(first.new_nodes, again.new_nodes)
    np.testing.assert_array_equal(first.unseen_nodes, again.unseen_nodes)
    assert (first.new_nodes != other.new_nodes).any()


def test_all_late_nodes_become_new_when_they_are_fewer_than_wanted(tmp_path):
    src = [*range(70), *[3, 4, 5] * 10]
    log = write_log(tmp_path, src, src, range(100))
    split = split_log(log)
    assert np.flatnonzero(split.new_nodes).tolist() == [3, 4, 5]
    assert not set(events_of(split.train)) & {3, 4, 5}
    assert len(split.train) == split.train.stop - 3


def test_nodes_without_events_do_not_raise_the_number_of_new_nodes(tmp_path):
    src = np.arange(100) % 30
    log = write_log(tmp_path, src, src, range(100), num_nodes=1000)
    assert split_log(log).new_nodes.sum() == 3


def test_a_split_without_new_nodes_may_have_no_unseen_ones(tmp_path):
    nodes = np.arange(60) % 3
    log = write_log(tmp_path, nodes, nodes, range(60))
    split = split_log(log)
    assert not split.new_nodes.any() and not split.unseen_nodes.any()
    assert len(split.inductive(split.test)) == 0
    assert split.train.excluded_nodes is None


@pytest.mark.parametrize(
    ("src", "times"),
    [
        ([0], [0]),
        ([0, 1, 2], [5, 5, 5]),
        ([0, 1, 0, 1], [0, 1, 1, 9]),
    ],
)
def test_an_empty_part_is_refused_with_its_numbers_and_a_remedy(tmp_path, src, times):
    log = write_log(tmp_path, src, src, times)
    with refused():
        split_log(log)


def test_a_training_part_emptied_by_new_nodes_is_refused(tmp_path):
    nodes = np.zeros(100, np.int32)
    log = write_log(tmp_path, nodes, nodes, range(100))
    with refused():
        split_log(log, new_node_share=1.0)


@pytest.mark.parametrize("shares", [(0, 0.1), (0.1, 0), (0.5, 0.5), (-0.1, 0.2), (float("nan"), 0.1)])
def test_shares_that_leave_a_part_without_events_are_refused(tmp_path, shares):
    log = random_log(tmp_path, 20, 5)
    with refused():
        split_log(log, val_share=shares[0], test_share=shares[1])
    with refused():
        split_log(log, new_node_share=1.5)
