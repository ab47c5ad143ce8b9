"""The merge of sorted runs equals a stable sort of everything at once."""

from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from data_prep.spill import CodedEvents, merge_runs

runs_of_times = st.lists(st.lists(st.integers(0, 6), max_size=12), min_size=1, max_size=6)


def coded(times: list[int], first: int) -> CodedEvents:
    number = np.arange(first, first + len(times))
    code = number.astype(np.int32)
    return CodedEvents(code, code, np.array(times, np.int64), code.astype(np.float32), number)


def in_blocks(run: CodedEvents, size: int) -> Iterator[CodedEvents]:
    for first in range(0, len(run), size):
        yield run[first : first + size]


@given(runs=runs_of_times, block=st.integers(1, 5))
def test_merge_is_a_stable_sort(runs: list[list[int]], block: int) -> None:
    sorted_runs, first = [], 0
    for times in runs:
        events = coded(times, first)
        sorted_runs.append(in_blocks(events[np.argsort(events.time, kind="stable")], block))
        first += len(times)
    merged = [number for part in merge_runs(sorted_runs) for number in part.feature_row.tolist()]
    everything = [time for times in runs for time in times]
    assert merged == sorted(range(len(everything)), key=lambda i: everything[i])
