"""A part of an event log — a range, minus or only the events of certain nodes — addressed by position."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tpnet_dist.events.batch_plan import Batch, BatchPlan, Positions
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.shards import EVENTS_PER_ROW_GROUP, EventColumns, Times, concatenate
from tpnet_dist.files.read_ahead import read_ahead

EVENTS_PER_CHUNK = 25_000
"""A quarter of a row group, since two chunks are held ahead, and what is made of one."""

NodeMask = npt.NDArray[np.bool_]
EventMask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class SelectedEvents:
    """Events of a view, in order; they need not be neighbours in the log."""

    index: Positions
    """The events' numbers in the log: rows of its edge features."""
    time_group: Positions
    """The number of the log's first event at the same time as each event; all before that are earlier."""
    columns: EventColumns

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: slice) -> "SelectedEvents":
        return SelectedEvents(self.index[rows], self.time_group[rows], self.columns[rows])


class EventView:
    """Events start … stop-1 of a log, without those that touch an excluded node.

    With `touching_nodes`, of the rest only those that touch one of these; without the events `left_out`. A
    view that leaves events out counts what it keeps, block by block, in one pass when it is made; later it
    reads from the right block on.
    """

    def __init__(
        self,
        log: EventLog,
        start: int,
        stop: int,
        excluded_nodes: NodeMask | None = None,
        *,
        touching_nodes: NodeMask | None = None,
        left_out: range = range(0),
        block_events: int = EVENTS_PER_ROW_GROUP,
    ) -> None:
        if not 0 <= start <= stop <= len(log):
            raise ValueError(
                f"events {start}…{stop} are not within this log's 0…{len(log)}; pass such a range"
            )
        for mask in (excluded_nodes, touching_nodes):
            _require_node_mask(mask, log.num_nodes)
        self.log, self.start, self.stop = log, start, stop
        self.excluded_nodes, self.touching_nodes = excluded_nodes, touching_nodes
        self.left_out = range(max(start, left_out.start), min(stop, left_out.stop))
        self._is_filtered = excluded_nodes is not None or touching_nodes is not None or bool(self.left_out)
        inner = np.arange((start // block_events + 1) * block_events, stop, block_events)
        self._block_starts = np.array([start, *inner, stop], dtype=np.int64)
        self._kept_before = self._count_kept() if self._is_filtered else self._block_starts - start

    def __len__(self) -> int:
        return int(self._kept_before[-1])

    def stream(
        self, from_position: int = 0, to_position: int | None = None, *, ahead: int = 2
    ) -> Iterator[SelectedEvents]:
        """Yield positions from … to-1 in chunks, never empty ones; `ahead` are prepared in a thread."""
        to_position = len(self) if to_position is None else to_position
        if not 0 <= from_position <= to_position <= len(self):
            raise ValueError(
                f"positions {from_position}…{to_position} are not within this view's 0…{len(self)}; "
                "pass such a range"
            )
        return read_ahead(self._chunks(from_position, to_position), ahead)

    def read(self, from_position: int, to_position: int) -> SelectedEvents:
        """Return positions from … to-1 as one block."""
        return self._join(list(self.stream(from_position, to_position, ahead=0)))

    def times(self) -> Iterator[Times]:
        """Stream the times only, as `plan_by_timestamps` wants them."""
        return (chunk.columns.time for chunk in self.stream())

    def batches(self, plan: BatchPlan, from_batch: int = 0) -> Iterator[tuple[Batch, SelectedEvents]]:
        """Yield each batch with the events it scores; what it records may reach further back: `read` that."""
        if plan.num_events != len(self):
            raise ValueError(
                f"the plan covers {plan.num_events:,} events, this view has {len(self):,}; "
                "plan the view that is read"
            )
        batches = plan.batches(from_batch)
        return self._cut(batches, self.stream(int(plan.borders[from_batch])))

    def _cut(
        self, batches: Iterator[Batch], chunks: Iterator[SelectedEvents]
    ) -> Iterator[tuple[Batch, SelectedEvents]]:
        chunk, used = self._join([]), 0
        for batch in batches:
            parts, missing = [], len(batch)
            while missing:
                if used == len(chunk):
                    chunk, used = next(chunks), 0
                part = chunk[used : used + missing]
                parts.append(part)
                used, missing = used + len(part), missing - len(part)
            yield batch, self._join(parts)

    def _join(self, parts: list[SelectedEvents]) -> SelectedEvents:
        if not parts:
            nothing = np.empty(0, dtype=np.int64)
            return SelectedEvents(nothing, nothing, self.log.read(self.start, self.start))
        if len(parts) == 1:
            return parts[0]
        return SelectedEvents(
            np.concatenate([part.index for part in parts]),
            np.concatenate([part.time_group for part in parts]),
            concatenate([part.columns for part in parts]),
        )

    def _chunks(self, from_position: int, to_position: int) -> Iterator[SelectedEvents]:
        """Enter the log at the block that holds `from_position`, leave it after the block of the last one."""
        if from_position == to_position:
            return
        block = int(np.searchsorted(self._kept_before, from_position, side="right")) - 1
        end_block = int(np.searchsorted(self._kept_before, to_position, side="left"))
        start, stop = self._block_starts[[block, end_block]].tolist()
        position = int(self._kept_before[block])
        for chunk in self._select(start, stop):
            wanted = chunk[max(0, from_position - position) : max(0, to_position - position)]
            position += len(chunk)
            if len(wanted):
                yield wanted

    def _select(self, start: int, stop: int, *, ahead: int = 0) -> Iterator[SelectedEvents]:
        time_group, last_time = -1, None
        for columns in self.log.stream(start, stop, chunk_events=EVENTS_PER_CHUNK, ahead=ahead):
            if last_time is None:
                time_group, last_time = _first_at(self.log, columns.time[0], start), columns.time[:1]
            index = np.arange(start, start + len(columns), dtype=np.int64)
            is_first = np.diff(columns.time, prepend=last_time) != 0
            time_groups = np.maximum.accumulate(np.where(is_first, index, time_group))
            start, time_group, last_time = start + len(columns), int(time_groups[-1]), columns.time[-1:]
            if not self._is_filtered:
                yield SelectedEvents(index, time_groups, columns)
                continue
            kept = np.flatnonzero(self._keep(columns, index))
            chosen = EventColumns(
                columns.src[kept], columns.dst[kept], columns.time[kept], columns.label[kept]
            )
            yield SelectedEvents(index[kept], time_groups[kept], chosen)

    def _keep(self, columns: EventColumns, index: Positions) -> EventMask:
        keep = (index < self.left_out.start) | (index >= self.left_out.stop)
        if self.excluded_nodes is not None:
            keep &= ~touches(self.excluded_nodes, columns)
        if self.touching_nodes is not None:
            keep &= touches(self.touching_nodes, columns)
        return keep

    def _count_kept(self) -> Positions:
        """Return how many kept events there are before each block, and last their number."""
        counts = np.zeros(len(self._block_starts), dtype=np.int64)
        for chunk in self._select(self.start, self.stop, ahead=2):
            block = np.searchsorted(self._block_starts, chunk.index, side="right")
            counts += np.bincount(block, minlength=len(counts))
        return np.cumsum(counts)


def _first_at(log: EventLog, time: np.int64 | np.float64, event: int) -> int:
    """Return the first event at the time of `event`; looks back no further than it must."""
    while event:
        start = max(0, event - EVENTS_PER_ROW_GROUP)
        num_earlier = int(np.searchsorted(log.read(start, event).time, time))
        event = start + num_earlier
        if num_earlier:
            break
    return event


def touches(nodes: NodeMask, events: EventColumns) -> EventMask:
    """Return which events have an end among `nodes`."""
    return nodes[events.src] | nodes[events.dst]


def _require_node_mask(mask: NodeMask | None, num_nodes: int) -> None:
    if mask is not None and (mask.shape != (num_nodes,) or mask.dtype != np.bool_):
        raise ValueError(
            f"node mask is {mask.dtype} {mask.shape}, but the log has {num_nodes:,} nodes; "
            "pass one bool per node"
        )
