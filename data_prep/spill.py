"""Events between the two passes: temporary runs on disk, read back in order or merged by time.

A run holds some millions of events. With sorting, each run is sorted by itself (stably) and the runs are
merged block by block: a megabyte and an open file for every two million events.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tpnet_dist.events.shards import Times

_EVENTS_PER_RUN = 1 << 21
_EVENTS_PER_BLOCK = 1 << 15  # merging holds one block (about 1 MB) of every run


@dataclass(frozen=True)
class CodedEvents:
    """Events whose ids are codes; `feature_row` says where an event's features lie."""

    src: npt.NDArray[np.int32]
    dst: npt.NDArray[np.int32]
    time: Times
    label: npt.NDArray[np.float32]
    feature_row: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, rows: slice | npt.NDArray[np.int64]) -> "CodedEvents":
        return CodedEvents(*(getattr(self, name)[rows] for name in _NAMES))


_NAMES = [field.name for field in fields(CodedEvents)]


def join(parts: list[CodedEvents]) -> CodedEvents:
    return CodedEvents(*(np.concatenate([getattr(part, name) for part in parts]) for name in _NAMES))


class Spill:
    """Append events, `close`, then read them back once."""

    def __init__(self, folder: Path, *, sort: bool) -> None:
        self._folder, self._sort = folder, sort
        self._pending: list[CodedEvents] = []
        self._num_pending = 0
        self._runs: list[Path] = []
        folder.mkdir()

    def append(self, events: CodedEvents) -> None:
        self._pending.append(events)
        self._num_pending += len(events)
        if self._num_pending >= _EVENTS_PER_RUN:
            self.close()

    def close(self) -> None:
        """Write what is pending as a run."""
        if not self._num_pending:
            return
        events = join(self._pending)
        self._pending, self._num_pending = [], 0
        if self._sort:
            events = events[np.argsort(events.time, kind="stable")]
        path = self._folder / f"run-{len(self._runs):05d}.arrow"
        _write_run(path, events)
        self._runs.append(path)

    def remove(self) -> None:
        """Remove the folder, which is empty once all has been read."""
        self._folder.rmdir()

    def read(self, to_final_time: Callable[[Times], Times]) -> Iterator[CodedEvents]:
        """Yield all events in order, their times in the final form; each run's file goes when it is used
        up."""
        runs = [_read_run(path, to_final_time) for path in self._runs]
        if self._sort:
            yield from merge_runs(runs)
        else:
            for run in runs:
                yield from run


def merge_runs(runs: list[Iterator[CodedEvents]]) -> Iterator[CodedEvents]:
    """Merge sorted runs stably: equal times keep the order of runs, then the order within the run.

    Each round emits all loaded events that no unread event can precede. The border is the smallest last
    time among the loaded blocks, `first` the first run whose block ends there: that run may hold more
    events of this very time, so the runs after it keep theirs back, while those before it cannot.

        run 0: 1 4 | …      border 4, first = 0: emit 1 4 of run 0, 3 of run 1 (its 4 waits)
        run 1: 3 4 6 | …
    """
    blocks = {number: block for number, run in enumerate(runs) if (block := next(run, None)) is not None}
    while blocks:
        border, first = min((block.time[-1], number) for number, block in blocks.items())
        ready = []
        for number, block in sorted(blocks.items()):
            count = int(np.searchsorted(block.time, border, side="right" if number <= first else "left"))
            ready.append(block[:count])
            rest = block[count:] if count < len(block) else next(runs[number], None)
            if rest is None:
                del blocks[number]
            else:
                blocks[number] = rest
        merged = join(ready)
        yield merged[np.argsort(merged.time, kind="stable")]


def _write_run(path: Path, events: CodedEvents) -> None:
    table = pa.table({name: getattr(events, name) for name in _NAMES})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=_EVENTS_PER_BLOCK)


def _read_run(path: Path, to_final_time: Callable[[Times], Times]) -> Iterator[CodedEvents]:
    with pa.OSFile(str(path)) as source:
        reader = pa.ipc.open_file(source)
        for number in range(reader.num_record_batches):
            columns = {name: column.to_numpy() for name, column in _columns(reader.get_batch(number))}
            yield CodedEvents(**{**columns, "time": to_final_time(columns["time"])})
    path.unlink()


def _columns(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    return zip(batch.schema.names, batch.columns, strict=True)
