"""Timestamp batches of a view as the memory takes them, and which of them are recorded together."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count, islice

import numpy as np
import torch

from tpnet_dist.events.batch_plan import Batch, BatchPlan
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.view import EventView, SelectedEvents
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.pipeline import MemoryRequest, fetch_ahead
from tpnet_dist.memory.plan import BatchEvents
from tpnet_dist.ranks.stop_request import StopAsked
from tpnet_dist.ranks.world import World

Progress = Callable[[int], None]
"""Told how many events were just recorded."""


BATCHES_PER_LOOK = 100
"""How often ranks that record ask one another whether to stop."""


def until_asked_to_stop(world: World) -> Progress:
    """For `replay`: ends it with StopAsked, on all ranks after the same batch."""
    batches = count(1)

    def look(num_events: int) -> None:
        if next(batches) % BATCHES_PER_LOOK == 0 and (asked := world.asked_to_stop()) is not None:
            raise StopAsked(asked)

    return look


@dataclass(frozen=True)
class EventBatch:
    """One timestamp batch."""

    selected: SelectedEvents
    events: BatchEvents
    record_alone: bool
    """Whether it is recorded by itself, once its rows are fetched."""
    group: tuple[BatchEvents, ...]
    """Otherwise, with the last batch of a group of equal times: all of them, to be recorded together."""

    @property
    def is_recorded(self) -> bool:
        return self.record_alone or bool(self.group)

    @property
    def last_time(self) -> float:
        return float(self.events.time_B[-1])


def batches_to_record(
    log: EventLog, view: EventView, plan: BatchPlan, from_batch: int = 0
) -> Iterator[EventBatch]:
    return grouped(log, view.batches(plan, from_batch))


def grouped(log: EventLog, batches: Iterable[tuple[Batch, SelectedEvents]]) -> Iterator[EventBatch]:
    """As the memory takes them; `log` tells what their times mean."""
    group: list[BatchEvents] = []
    for batch, selected in batches:
        columns = selected.columns
        events = BatchEvents(
            torch.from_numpy(columns.src.astype(np.int64)),
            torch.from_numpy(columns.dst.astype(np.int64)),
            torch.from_numpy(log.seconds(columns.time)),
        )
        group.append(events)
        is_whole = batch.record_stop == batch.stop
        alone = is_whole and len(group) == 1
        yield EventBatch(selected, events, alone, tuple(group) if is_whole and not alone else ())
        group = [] if is_whole else group


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
    batches = islice(batches_to_record(log, view, plan), num_batches)
    record_each(memory, batches, prefetch=1, progress=progress)


def record_each(
    memory: Memory,
    batches: Iterable[EventBatch],
    *,
    prefetch: int,
    progress: Progress = lambda num_events: None,
) -> None:
    """One after another, nothing of them being asked for."""
    requests = (
        MemoryRequest(
            batch.events,
            None,
            len(batch.events),
            record=batch.record_alone,
            group=batch.group,
            products=False,
        )
        for batch in batches
    )
    # whoever is told may end it, on all ranks after the same batch
    with closing(fetch_ahead(memory, requests, prefetch=prefetch)) as ahead:  # type: ignore[type-var]
        for num_events, _ in ahead:
            progress(num_events)
