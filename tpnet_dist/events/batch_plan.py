"""Which events form which timestamp batch, step and slice: pure arithmetic on event positions.

With batches of at most 3, and events at times 1 1 2 | 5 5 5 5 5 | 7:

    events       borders 0 3 6 9      recorded 0 3 6 9
    timestamps   borders 0 3 6 8 9    recorded 0 3 3 8 9   (the events at 5: two pieces, recorded at once)
"""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tpnet_dist.errors import InputError
from tpnet_dist.events.shards import Times

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Score start … stop-1 with the memory before record_start, then record record_start … record_stop-1."""

    number: int
    start: int
    stop: int
    record_start: int
    record_stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Position:
    """Says where a run stands between two steps: what comes next, as batch and as event."""

    steps: int
    """The number of steps done."""
    batch: int
    """The next batch."""
    event: int
    """The first event not yet scored."""
    record_start: int
    """The first event not yet in the memory."""


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """All batches of a stream. They know nothing of ranks, so they are the same for any number of them."""

    borders: Positions
    """Batch b scores borders[b] … borders[b+1]-1."""
    recorded: Positions
    """Batch b sees the memory of events 0 … recorded[b]-1; afterwards it holds 0 … recorded[b+1]-1."""

    def __len__(self) -> int:
        return len(self.borders) - 1

    @property
    def num_events(self) -> int:
        return int(self.borders[-1])

    def __getitem__(self, number: int) -> Batch:
        if not 0 <= number < len(self):
            raise IndexError(f"batch {number} is not among this plan's 0…{len(self) - 1}")
        start, stop = self.borders[number : number + 2].tolist()
        record_start, record_stop = self.recorded[number : number + 2].tolist()
        return Batch(number, start, stop, record_start, record_stop)

    def batches(self, from_batch: int = 0) -> Iterator[Batch]:
        """Yield the batches in order from `from_batch` on; `len(plan)` gives none."""
        _require_within("from_batch", from_batch, len(self))
        return (self[number] for number in range(from_batch, len(self)))

    def num_steps(self, batches_per_step: int) -> int:
        """Return the number of steps, of which the last may have fewer batches."""
        _require_positive("batches_per_step", batches_per_step)
        return -(-len(self) // batches_per_step)

    def step(self, number: int, batches_per_step: int) -> range:
        """Return the numbers of the batches of a step."""
        if not 0 <= number < self.num_steps(batches_per_step):
            raise IndexError(f"step {number} is not among 0…{self.num_steps(batches_per_step) - 1}")
        first = number * batches_per_step
        return range(first, min(first + batches_per_step, len(self)))

    def position(self, steps_done: int, batches_per_step: int) -> Position:
        """Return where to go on after `steps_done` steps."""
        _require_within("steps_done", steps_done, self.num_steps(batches_per_step))
        batch = min(steps_done * batches_per_step, len(self))
        return Position(steps_done, batch, int(self.borders[batch]), int(self.recorded[batch]))


def plan_by_events(num_events: int, batch_size: int) -> BatchPlan:
    """Plan batches of exactly `batch_size`, the last one smaller; equal times may be cut."""
    _require_positive("batch_size", batch_size)
    if num_events < 0:
        raise ValueError(f"num_events {num_events} is negative; pass the number of events of the stream")
    borders = np.minimum(np.arange(0, num_events + batch_size, batch_size, dtype=np.int64), num_events)
    return BatchPlan(borders, borders)


def plan_by_timestamps(time_chunks: Iterable[Times], batch_size: int) -> BatchPlan:
    """Plan whole groups of equal times, packed greedily; a group above `batch_size` in pieces."""
    _require_positive("batch_size", batch_size)
    packer = _GroupPacker(batch_size)
    last, seen = None, 0
    for times in time_chunks:
        if not len(times):
            continue
        packer.pack(_group_ends(times, last, seen), is_last=False)
        last, seen = times[-1:].copy(), seen + len(times)
    packer.pack(np.array([seen], dtype=np.int64), is_last=True)
    return packer.plan()


def slice_of(start: int, stop: int, rank: int, num_ranks: int) -> tuple[int, int]:
    """Return the rank's share of start … stop-1: contiguous, sizes differ by at most one, may be empty."""
    _require_positive("num_ranks", num_ranks)
    if not 0 <= rank < num_ranks:
        raise ValueError(f"rank {rank} is not among 0…{num_ranks - 1}; pass this process's own rank")
    if start > stop:
        raise ValueError(f"range {start}…{stop} ends before it starts; pass start ≤ stop")
    size = stop - start
    return start + size * rank // num_ranks, start + size * (rank + 1) // num_ranks


class _GroupPacker:
    """Grow the plan while ends of groups become known; keeps at most `batch_size` of them waiting."""

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._borders, self._recorded = array("q", [0]), array("q", [0])
        self._waiting: Positions = np.empty(0, dtype=np.int64)

    def pack(self, group_ends: Positions, *, is_last: bool) -> None:
        ends, start = np.concatenate([self._waiting, group_ends]), self._borders[-1]
        while len(ends) and start < ends[-1]:
            num_fitting = int(np.searchsorted(ends, start + self._batch_size, side="right"))
            if num_fitting == len(ends) and not is_last:
                break
            # ends at or before `start` are used up, so nothing fitting means: the next group is too large
            if num_fitting and ends[num_fitting - 1] > start:
                end = int(ends[num_fitting - 1])
            else:
                end = int(ends[num_fitting])
            self._append(start, end)
            start = end
        self._waiting = ends[np.searchsorted(ends, start, side="right") :].copy()

    def plan(self) -> BatchPlan:
        return BatchPlan(np.array(self._borders, np.int64), np.array(self._recorded, np.int64))

    def _append(self, start: int, end: int) -> None:
        inner = range(start + self._batch_size, end, self._batch_size)
        self._borders.extend(inner)
        self._recorded.extend(array("q", [start]) * len(inner))
        self._borders.append(end)
        self._recorded.append(end)


def _group_ends(times: Times, last: Times | None, seen: int) -> Positions:
    """Return where groups end that are known to end: each end is the position of the first later event."""
    joined = times if last is None else np.concatenate([last, times])
    first = seen + len(times) - len(joined)
    backward = joined[1:] < joined[:-1]
    if backward.any():
        event = int(backward.argmax())
        raise InputError(
            f"event {first + event + 1}: time {joined[event + 1]} is before {joined[event]}, but times must "
            "not decrease; sort the log by time (data_prep convert --sort)"
        )
    return np.flatnonzero(joined[1:] != joined[:-1]).astype(np.int64, copy=False) + (first + 1)


def _require_positive(name: str, value: int) -> None:
    if value < 1:
        raise InputError(f"{name} is {value}, but must be at least 1; raise it")


def _require_within(name: str, value: int, last: int) -> None:
    if not 0 <= value <= last:
        raise ValueError(
            f"{name} is {value}, but this plan allows 0…{last}; resume with the plan it came from"
        )
