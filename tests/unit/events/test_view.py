"""A view is compared with plain numpy selection from the same small log, written in shards of 37 events."""

import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.event_logs import random_log, write_log
from tpnet_dist.events.batch_plan import plan_by_events, plan_by_timestamps
from tpnet_dist.events.view import EventView, touches

NUM_EVENTS, NUM_NODES, BLOCK = 300, 20, 16


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return random_log(tmp_path_factory.mktemp("view"), NUM_EVENTS, NUM_NODES, events_per_shard=37)


def ranges(last):
    return st.tuples(st.integers(0, last), st.integers(0, last)).map(sorted)


node_sets = st.one_of(st.none(), st.sets(st.integers(0, NUM_NODES - 1), max_size=8))


def mask_of(nodes):
    return None if nodes is None else np.isin(np.arange(NUM_NODES), list(nodes))


def expected_index(log, start, stop, excluded, touching=None):
    events = log.read(0, len(log))
    keep = np.ones(len(events), dtype=bool)
    if excluded is not None:
        keep &= ~(excluded[events.src] | excluded[events.dst])
    if touching is not None:
        keep &= touching[events.src] | touching[events.dst]
    return np.arange(start, stop)[keep[start:stop]]


def assert_events(everything, selected, index):
    assert selected.index.dtype == np.int64
    np.testing.assert_array_equal(selected.index, index)
    first_at = np.searchsorted(everything.time, everything.time[index])
    np.testing.assert_array_equal(selected.time_group, first_at)
    for name in ("src", "dst", "time", "label"):
        wanted = getattr(everything, name)
        found = getattr(selected.columns, name)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted[index])


@settings(deadline=None)
@given(bounds=ranges(NUM_EVENTS), nodes=node_sets, touching=node_sets, data=st.data())
def test_any_position_range_of_any_view_is_what_numpy_selects(log, bounds, nodes, touching, data):
    excluded, required = mask_of(nodes), mask_of(touching)
    view = EventView(log, *bounds, excluded, touching_nodes=required, block_events=BLOCK)
    index = expected_index(log, *bounds, excluded, required)
    assert len(view) == len(index)
    first, last = data.draw(ranges(len(index)))
    assert_events(log.read(0, len(log)), view.read(first, last), index[first:last])
    chunks = list(view.stream(first, last))
    assert all(len(chunk) for chunk in chunks)
    np.testing.assert_array_equal(
        np.concatenate([np.empty(0), *(chunk.index for chunk in chunks)]), index[first:last]
    )


@settings(deadline=None)
@given(bounds=ranges(NUM_EVENTS), nodes=node_sets, batch_size=st.integers(1, 60), by_events=st.booleans())
def test_batches_hold_exactly_the_planned_events_from_any_batch_on(log, bounds, nodes, batch_size, by_events):
    excluded = mask_of(nodes)
    view = EventView(log, *bounds, excluded, block_events=BLOCK)
    plan = (
        plan_by_events(len(view), batch_size) if by_events else plan_by_timestamps(view.times(), batch_size)
    )
    index, everything = expected_index(log, *bounds, excluded), log.read(0, len(log))
    for from_batch in {0, len(plan) // 2, len(plan)}:
        read = list(view.batches(plan, from_batch))
        assert [batch for batch, _ in read] == list(plan.batches(from_batch))
        for batch, events in read:
            assert_events(everything, events, index[batch.start : batch.stop])


def test_what_a_large_group_records_at_its_end_can_be_read_back_over_its_pieces(tmp_path):
    log = write_log(tmp_path, range(12), range(12), [0, *[5] * 10, 6], events_per_shard=4)
    view = EventView(log, 0, 12, np.arange(12) == 3)
    plan = plan_by_timestamps(view.times(), 4)
    recorded = [view.read(b.record_start, b.record_stop).index.tolist() for b in plan.batches()]
    assert recorded == [[0], [], [], [1, 2, 4, 5, 6, 7, 8, 9, 10], [11]]


def test_times_are_those_of_the_selected_events(log):
    excluded = mask_of({1, 2, 3})
    view = EventView(log, 10, 290, excluded)
    expected = log.read(0, len(log)).time[expected_index(log, 10, 290, excluded)]
    np.testing.assert_array_equal(np.concatenate(list(view.times())), expected)


def test_an_unfiltered_view_reads_nothing_when_made_and_a_filtered_one_reads_once(log, monkeypatch):
    read = spy_on_stream(log, monkeypatch)
    EventView(log, 20, 200)
    assert read == []
    EventView(log, 20, 200, mask_of({1}))
    assert read == [(20, 200), (0, 20)]  # and a look back for the first event at the same time


def test_seeking_reads_only_from_the_block_of_the_position_on(log, monkeypatch):
    view = EventView(log, 20, 290, mask_of({1, 2}), block_events=BLOCK)
    index = expected_index(log, 20, 290, mask_of({1, 2}))
    read = spy_on_stream(log, monkeypatch)
    for first, last in ((0, 1), (100, 101), (57, 120), (len(view) - 1, len(view))):
        read.clear()
        view.read(first, last)
        (start, stop), *looks_back = read
        assert looks_back in ([], [(0, start)])
        assert start <= index[first] < start + BLOCK
        assert stop - BLOCK <= index[last - 1] < stop


def spy_on_stream(log, monkeypatch):
    read, stream = [], log.stream

    def remember(start, stop, **options):
        read.append((start, stop))
        return stream(start, stop, **options)

    monkeypatch.setattr(log, "stream", remember)
    return read


def test_a_batch_within_one_chunk_is_a_slice_and_not_a_copy(log):
    view = EventView(log, 0, 30)
    (_, first), (_, second), _ = view.batches(plan_by_events(30, 10))
    assert first.index.base is second.index.base is not None
    assert first.columns.time.base is second.columns.time.base is not None


def test_leaving_a_stream_early_ends_its_thread(log):
    threads = threading.active_count()
    view = EventView(log, 0, NUM_EVENTS)
    for stream in (view.stream(), view.batches(plan_by_events(NUM_EVENTS, 3)), view.times()):
        next(stream)
        assert threading.active_count() == threads + 1
        stream.close()
        del stream
        assert threading.active_count() == threads


def test_touches_marks_events_with_either_end_among_the_nodes(log):
    events, nodes = log.read(0, 50), mask_of({4, 5})
    expected = [s in (4, 5) or d in (4, 5) for s, d in zip(events.src, events.dst, strict=True)]
    assert touches(nodes, events).tolist() == expected


@pytest.mark.parametrize("bounds", list(pairwise([-1, 5, 3, NUM_EVENTS + 1])))
def test_ranges_outside_the_log_or_the_view_are_refused(log, bounds):
    with pytest.raises(ValueError, match="not within this log"):
        EventView(log, *bounds)
    with pytest.raises(ValueError, match="not within this view"):
        EventView(log, 0, NUM_EVENTS).read(*bounds)


@pytest.mark.parametrize("mask", [np.zeros(NUM_NODES - 1, bool), np.zeros(NUM_NODES, np.int64)])
def test_a_mask_that_is_not_one_bool_per_node_is_refused(log, mask):
    with pytest.raises(ValueError, match="one bool per node"):
        EventView(log, 0, 10, mask)


def test_a_plan_of_another_length_is_refused(log):
    with pytest.raises(ValueError, match="plan covers 11 events, this view has 10"):
        EventView(log, 0, 10).batches(plan_by_events(11, 2))
