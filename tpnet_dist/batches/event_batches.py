"""Timestamp batches of a view as the memory takes them, and which of them are recorded together."""

from collections.abc import Callable, Iterator

import numpy as np
import torch

from tpnet_dist.distributed.stop_request import StopRequested
from tpnet_dist.distributed.world import World
from tpnet_dist.events.batch_plan import BatchPlan, Positions
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.shards import EventColumns, concatenate
from tpnet_dist.events.view import EventView, SelectedEvents
from tpnet_dist.memory.event_run import BatchEvents, EventRun
from tpnet_dist.memory.memory import Memory

Progress = Callable[[int], None]
"""Is called with the number of events that were just recorded."""


def until_stop_requested(world: World) -> Progress:
    """Return a callback for `replay` that raises StopRequested, on all ranks after the same batch."""

    def look(num_events: int) -> None:
        if (asked := world.stop_requested()) is not None:
            raise StopRequested(asked)

    return look


def batches_to_record(
    log: EventLog, view: EventView, plan: BatchPlan, from_batch: int = 0
) -> Iterator[tuple[SelectedEvents, BatchEvents]]:
    """Yield the events of each timestamp batch, and what the memory records once their rows are read: the
    same. The last batch of a group of equal times records the whole group, the others nothing.

    The memory has recorded what comes before `from_batch`; `log` tells what times mean.
    """
    # a group of equal times is recorded whole, also by those who begin within it
    begun = view.read(int(plan.recorded[from_batch]), int(plan.borders[from_batch]))
    group = [_events_of(begun, log)] if len(begun) else []
    for batch, selected in view.batches(plan, from_batch):
        group.append(_events_of(selected, log))
        if batch.record_stop < batch.stop:
            yield selected, BatchEvents.none()
            continue
        yield selected, BatchEvents.joined(group)
        group = []


def _events_of(selected: SelectedEvents, log: EventLog) -> BatchEvents:
    columns = selected.columns
    return BatchEvents(
        torch.from_numpy(columns.src.astype(np.int64)),
        torch.from_numpy(columns.dst.astype(np.int64)),
        torch.from_numpy(log.seconds(columns.time)),
    )


def replay(
    memory: Memory,
    log: EventLog,
    view: EventView,
    plan: BatchPlan,
    num_batches: int | None = None,
    *,
    progress: Progress = lambda num_events: None,
) -> None:
    """Record the first batches of a view, or all, scoring none: the memory ends as if they had been."""
    recorded = np.unique(plan.recorded[: None if num_batches is None else num_batches + 1])
    memory.catch_up(_unread_runs(log, view, recorded), int(recorded[-1]), progress=progress)


def _unread_runs(log: EventLog, view: EventView, recorded: Positions) -> Iterator[EventRun]:
    """Yield runs of whole batches, as many as a chunk of the view has."""
    done, waiting = 0, list[EventColumns]()
    for chunk in view.stream(0, int(recorded[-1])):
        waiting.append(chunk.columns)
        stop = done + sum(map(len, waiting))
        borders = recorded[np.searchsorted(recorded, done) : np.searchsorted(recorded, stop, side="right")]
        if len(borders) < 2:
            # a group of equal times goes on
            continue
        columns, count = concatenate(waiting), int(borders[-1]) - done
        now, waiting = columns[:count], [columns[count:]]
        yield EventRun.from_columns(now.src, now.dst, log.seconds(now.time), borders - done)
        done += count
