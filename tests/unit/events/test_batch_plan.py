"""The batch plan is arithmetic, so it is compared with a slow literal planner over many random streams."""

from itertools import groupby, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.sentences import refused
from tpnet_dist.events.batch_plan import Batch, BatchPlan, plan_by_events, plan_by_timestamps, slice_of

batch_sizes = st.integers(1, 9)
num_ranks_tried = range(1, 8)


@st.composite
def tied_times(draw):
    sizes = draw(st.lists(st.integers(1, 25), max_size=12))
    times = np.repeat(np.cumsum(np.ones(len(sizes), np.int64)), sizes)
    return times * 0.1 if draw(st.booleans()) else times


@st.composite
def plans(draw):
    if draw(st.booleans()):
        return plan_by_events(draw(st.integers(0, 100)), draw(batch_sizes))
    return plan_by_timestamps([draw(tied_times())], draw(batch_sizes))


def literal_plan(times, batch_size):
    """Event by event: lists of (scored, recorded afterwards)."""
    planned, waiting = [], []
    for _, members in groupby(range(len(times)), key=lambda event: times[event]):
        group = list(members)
        if waiting and len(waiting) + len(group) > batch_size:
            planned.append((waiting, waiting))
            waiting = []
        if len(group) <= batch_size:
            waiting = waiting + group
            continue
        pieces = [group[first : first + batch_size] for first in range(0, len(group), batch_size)]
        planned += [(piece, []) for piece in pieces[:-1]] + [(pieces[-1], group)]
    return [*planned, (waiting, waiting)] if waiting else planned


def scored(batch):
    return list(range(batch.start, batch.stop))


def recorded(batch):
    return list(range(batch.record_start, batch.record_stop))


def as_lists(plan):
    return plan.borders.tolist(), plan.recorded.tolist()


def test_the_example_of_the_module_holds():
    times = np.array([1, 1, 2, 5, 5, 5, 5, 5, 7])
    assert as_lists(plan_by_events(9, 3)) == ([0, 3, 6, 9], [0, 3, 6, 9])
    assert as_lists(plan_by_timestamps([times], 3)) == ([0, 3, 6, 8, 9], [0, 3, 3, 8, 9])


@settings(deadline=None)
@given(st.integers(0, 200), batch_sizes)
def test_event_batches_are_full_but_the_last_and_record_what_they_score(num_events, batch_size):
    plan = plan_by_events(num_events, batch_size)
    sizes = [len(batch) for batch in plan.batches()]
    assert sum(sizes) == num_events == plan.num_events
    assert all(size == batch_size for size in sizes[:-1])
    assert all(0 < size <= batch_size for size in sizes)
    assert plan.recorded.tolist() == plan.borders.tolist()


@settings(deadline=None)
@given(tied_times(), batch_sizes)
def test_timestamp_batches_equal_those_of_the_literal_planner(times, batch_size):
    plan = plan_by_timestamps([times], batch_size)
    planned = [(scored(batch), recorded(batch)) for batch in plan.batches()]
    assert planned == literal_plan(times, batch_size)


@settings(deadline=None)
@given(tied_times(), batch_sizes)
def test_equal_times_are_cut_only_in_groups_larger_than_a_batch_and_those_are_recorded_at_once(
    times, batch_size
):
    plan = plan_by_timestamps([times], batch_size)
    group_size = {time: int((times == time).sum()) for time in times.tolist()}
    for border in plan.borders[1:-1].tolist():
        if times[border - 1] == times[border]:
            assert group_size[times[border].item()] > batch_size
    for batch in plan.batches():
        assert 0 < len(batch) <= batch_size
        for event in recorded(batch):
            assert batch.record_start <= np.searchsorted(times, times[event])
            assert batch.record_stop >= np.searchsorted(times, times[event], side="right")


@settings(deadline=None)
@given(tied_times(), batch_sizes)
def test_no_event_is_scored_against_a_memory_that_holds_its_own_time(times, batch_size):
    for batch in plan_by_timestamps([times], batch_size).batches():
        assert batch.record_start <= np.searchsorted(times, times[batch.start])


@settings(deadline=None)
@given(plans())
def test_every_event_is_scored_once_then_recorded_once_both_in_order(plan):
    all_scored, all_recorded = [], []
    for batch in plan.batches():
        assert len(all_recorded) == batch.record_start <= batch.start
        all_scored += scored(batch)
        all_recorded += recorded(batch)
        assert set(all_recorded) <= set(all_scored)
    assert all_scored == all_recorded == list(range(plan.num_events))


@settings(deadline=None)
@given(tied_times(), batch_sizes, st.lists(st.integers(0, 300), max_size=12))
def test_the_plan_does_not_depend_on_how_times_are_chunked(times, batch_size, cuts):
    edges = [0, *sorted(min(cut, len(times)) for cut in cuts), len(times)]
    chunks = [times[start:stop] for start, stop in pairwise(edges)]
    whole = plan_by_timestamps([times], batch_size)
    assert as_lists(plan_by_timestamps(iter(chunks), batch_size)) == as_lists(whole)
    one_by_one = (times[event : event + 1] for event in range(len(times)))
    assert as_lists(plan_by_timestamps(one_by_one, batch_size)) == as_lists(whole)


@settings(deadline=None)
@given(plans())
def test_slices_of_one_to_seven_ranks_tile_the_same_global_batches(plan):
    for num_ranks in num_ranks_tried:
        for batch in plan.batches():
            slices = [slice_of(batch.start, batch.stop, rank, num_ranks) for rank in range(num_ranks)]
            sizes = [stop - start for start, stop in slices]
            assert [event for bounds in slices for event in range(*bounds)] == scored(batch)
            assert min(sizes) >= 0 and max(sizes) - min(sizes) <= 1


@settings(deadline=None)
@given(plans(), st.integers(1, 5))
def test_steps_tile_the_batches(plan, batches_per_step):
    steps = [plan.step(number, batches_per_step) for number in range(plan.num_steps(batches_per_step))]
    assert [batch for step in steps for batch in step] == list(range(len(plan)))
    assert all(len(step) == batches_per_step for step in steps[:-1])
    assert all(steps)


@settings(deadline=None)
@given(plans(), st.integers(1, 5))
def test_resuming_after_any_step_continues_with_identical_batches(plan, batches_per_step):
    whole = list(plan.batches())
    num_scored = num_recorded = 0
    for steps_done in range(plan.num_steps(batches_per_step) + 1):
        position = plan.position(steps_done, batches_per_step)
        assert (position.event, position.record_start) == (num_scored, num_recorded)
        assert list(plan.batches(position.batch)) == whole[position.batch :]
        if steps_done < plan.num_steps(batches_per_step):
            last = whole[plan.step(steps_done, batches_per_step)[-1]]
            num_scored, num_recorded = last.stop, last.record_stop
    assert num_scored == plan.num_events


@settings(deadline=None)
@given(plans())
def test_resuming_at_any_batch_continues_with_identical_batches(plan):
    whole = [plan[number] for number in range(len(plan))]
    for from_batch in range(len(plan) + 1):
        assert list(plan.batches(from_batch)) == whole[from_batch:]


def test_a_group_far_larger_than_many_chunks_is_scored_in_pieces_and_recorded_at_once():
    chunks = [np.array([1, 1, 2]), *[np.full(100, 3)] * 10, np.array([3, 4])]
    plan = plan_by_timestamps(chunks, 200)
    assert as_lists(plan) == ([0, 3, 203, 403, 603, 803, 1003, 1004, 1005], [0, 3, 3, 3, 3, 3, 3, 1004, 1005])


def test_an_empty_stream_has_no_batches_and_no_steps():
    for plan in (plan_by_events(0, 5), plan_by_timestamps([], 5), plan_by_timestamps([np.empty(0)], 5)):
        assert (len(plan), plan.num_events, plan.num_steps(3), list(plan.batches())) == (0, 0, 0, [])
        assert plan.position(0, 3).batch == 0


def test_a_batch_tells_all_its_borders():
    plan = BatchPlan(np.array([0, 2, 4, 5]), np.array([0, 2, 2, 5]))
    assert plan[2] == Batch(number=2, start=4, stop=5, record_start=2, record_stop=5)


@pytest.mark.parametrize("batch_size", [0, -3])
def test_a_batch_size_below_one_is_refused(batch_size):
    with refused():
        plan_by_events(10, batch_size)
    with refused():
        plan_by_timestamps([np.array([1])], batch_size)


@pytest.mark.parametrize("chunks", [[[1, 4, 3]], [[1, 4], [3]], [[1], [4, 3]]])
def test_decreasing_times_are_refused_with_event_and_remedy(chunks):
    with refused():
        plan_by_timestamps([np.array(chunk) for chunk in chunks], 2)


@pytest.mark.parametrize(("rank", "num_ranks"), [(2, 2), (-1, 2), (0, 0)])
def test_a_rank_outside_the_world_is_refused(rank, num_ranks):
    with pytest.raises(ValueError, match="rank"):
        slice_of(0, 10, rank, num_ranks)


def test_positions_outside_the_plan_are_refused():
    plan = plan_by_events(10, 4)
    for misuse in (
        lambda: plan[3],
        lambda: plan[-1],
        lambda: plan.batches(4),
        lambda: plan.batches(-1),
        lambda: plan.step(2, 2),
        lambda: plan.position(3, 2),
        lambda: plan.num_steps(0),
        lambda: plan_by_events(-1, 4),
        lambda: slice_of(5, 4, 0, 1),
    ):
        with pytest.raises((ValueError, IndexError)):
            misuse()
