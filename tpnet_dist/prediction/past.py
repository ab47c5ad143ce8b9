"""What has happened so far, as the model sees it: rows, who met whom when, features; and what is added to it.

    the log's events up to `until`  →  neighbour index, rows: by the batches of the settings
    events added later              →  neighbours at once, rows batch by batch

An event is met as a neighbour by whatever comes later, also within its batch; rows are those before the
batch. That is how events are scored in training and evaluation, so it is how they are here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tpnet_dist.batches.event_batches import replay
from tpnet_dist.batches.run_data import index_of, plan_of, split_of
from tpnet_dist.config.schema import Config
from tpnet_dist.errors import InputError
from tpnet_dist.events.batch_plan import BatchPlan, plan_by_events, plan_by_timestamps
from tpnet_dist.events.features import Features
from tpnet_dist.events.grown_features import GrownFeatures
from tpnet_dist.events.raw_ids import Dense
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.shards import EventColumns, Times, concatenate
from tpnet_dist.events.view import EventView, SelectedEvents
from tpnet_dist.memory.event_run import EventRun
from tpnet_dist.memory.memory import Memory
from tpnet_dist.neighbors.growing import GrowingNeighbors
from tpnet_dist.prediction.kept_rows import KeptRows


@dataclass
class LaterEvents:
    """All that was added, by dense ids."""

    columns: list[EventColumns] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """How many events were recorded each time."""
    features: list[Features] = field(default_factory=list)


class Past:
    """Joins one log and one memory; nodes are dense ids, times those of the log."""

    def __init__(
        self,
        config: Config,
        log: EventLog,
        memory: Memory | None,
        *,
        until: int,
        as_evaluated: bool,
        rows: KeptRows | None = None,
    ) -> None:
        """`rows`: as they were after some events, which are not recorded again."""
        # config
        self.config, self.log, self.until, self.as_evaluated = config, log, until, as_evaluated
        # parts
        self.memory = memory
        everything = EventView(log, 0, until)
        index = index_of(config, everything, 0, log.num_nodes)
        self.neighbors = GrowingNeighbors(index, first_event=until, time_dtype=log.manifest.time_dtype)
        features = log.edge_features
        self.edge_features = None if features is None else GrownFeatures(features, until)
        # progress
        self.later = LaterEvents()
        self.num_events = until
        self.now: int | float = log.manifest.first_time
        self.memory_time = 0.0
        """Of the last event in the rows, in seconds since the log's first."""
        self._first_at_now = 0
        self.in_rows = 0 if rows is None else rows.num_events
        """How many events were in the rows from the beginning."""
        self._unrecorded: list[EventColumns] = []
        if until:
            last = EventView(log, until - 1, until).read(0, 1)
            self.now, self._first_at_now = last.columns.time[0].item(), int(last.time_group[0])
        if rows is not None and memory is not None:
            self.memory_time = memory.go_on_from(rows.columns_like(memory.recorded()))
            return
        for view, plan in self._parts(everything):
            self._record_view(view, plan)

    def links(self, src_B: Dense, dst_B: Dense, time_B: Times) -> SelectedEvents:
        """Links of which each is asked about as if it were the next event, at a time that is not before
        now."""
        time_group_B = np.where(time_B == self.now, self._first_at_now, self.num_events)
        return SelectedEvents(
            np.full(len(time_B), self.num_events), time_group_B, _columns(src_B, dst_B, time_B)
        )

    def add(self, src_B: Dense, dst_B: Dense, time_B: Times, features: Features | None) -> None:
        """Events in order of time, to be met as neighbours from now on; rows change with `record`."""
        if not len(src_B):
            return
        self.neighbors.append(src_B, dst_B, time_B)
        if self.edge_features is not None and features is not None:
            self.edge_features.append(features)
            self.later.features.append(features)
        first_of_last = int(np.searchsorted(time_B, time_B[-1]))
        if first_of_last or time_B[-1] != self.now:
            self._first_at_now = self.num_events + first_of_last
        self.now = time_B[-1].item()
        self.num_events += len(src_B)
        self._unrecorded.append(_columns(src_B, dst_B, time_B))

    def record(self) -> None:
        """Add the events that are not in the rows yet, in batches."""
        if not self._unrecorded:
            return
        columns = concatenate(self._unrecorded)
        self._record(columns, [len(columns)])

    def repeat(
        self, src_B: Dense, dst_B: Dense, time_B: Times, features: Features | None, sizes: Sequence[int]
    ) -> None:
        """Add and record what was recorded so many events at a time, in one go: rows come out the same to the
        last bit."""
        if not len(src_B):
            return
        self.add(src_B, dst_B, time_B, features)
        self._record(_columns(src_B, dst_B, time_B), sizes)

    def _record(self, columns: EventColumns, sizes: Sequence[int]) -> None:
        self._unrecorded.clear()
        self.later.columns.append(columns)
        self.later.sizes += sizes
        first = self.num_events - len(columns)
        borders = self._borders(columns.time, sizes)
        borders = borders[borders >= self.in_rows - first]
        new = columns[slice(borders[0], None)] if len(borders) else columns[:0]
        if not len(new):
            return
        if self.memory is not None:
            seconds = self.log.seconds(new.time)
            run = EventRun.from_columns(new.src, new.dst, seconds, borders - borders[0])
            self.memory.catch_up([run], run.num_events)
        self.memory_time = float(self.log.seconds(new.time[-1:])[0])

    def _borders(self, times: Times, sizes: Sequence[int]) -> npt.NDArray[np.int64]:
        """Return where batches begin, and where the last one ends; a batch holds events of one call only."""
        parts, first = [np.zeros(1, np.int64)], 0
        for size in sizes:
            # plans take longer than such a part itself
            plan = np.ones(1, np.int64) if size == 1 else self._plan_of(times[first : first + size]).recorded
            parts.append(first + plan)
            first += size
        return np.unique(np.concatenate(parts))

    def check_features(self, features: Features | None, count: int) -> None:
        """Refuse features that are not as wide as those of the log, or no numbers: rows would stay so."""
        wanted = None if self.edge_features is None else (count, self.edge_features.width)
        found = None if features is None else features.shape
        if found != wanted:
            raise InputError(
                f"features are {found or 'absent'} where this log asks for {wanted or 'none'}; "
                "give a row of features for each event if the log has some, else none"
            )
        if features is not None and not np.isfinite(features).all():
            event, column = np.argwhere(~np.isfinite(features))[0]
            raise InputError(
                f"event {event}: feature {column} is {features[event, column]}, but must be a finite number; "
                "correct it"
            )

    def _plan_of(self, times: Times) -> BatchPlan:
        size = self.config.evaluation.batch_size
        if self.config.data.batching == "events":
            return plan_by_events(len(times), size)
        return plan_by_timestamps([times], size)

    def _parts(self, everything: EventView) -> Iterator[tuple[EventView, BatchPlan]]:
        """What of the log is in the rows, and by which batches."""
        config, log, until = self.config, self.log, self.until
        if not self.as_evaluated:
            yield everything, plan_of(everything, config, config.evaluation.batch_size)
            return
        split = split_of(log, config.data)
        train = EventView(
            log, 0, min(until, split.train.stop), split.train.excluded_nodes, left_out=split.train.left_out
        )
        yield train, plan_of(train, config, config.training.batch_size)
        for part in (split.val, split.test):
            view = EventView(log, min(until, part.start), min(until, part.stop))
            yield view, plan_of(view, config, config.evaluation.batch_size)

    def _record_view(self, view: EventView, plan: BatchPlan) -> None:
        if not len(view):
            return
        if self.memory is not None:
            replay(self.memory, self.log, view, plan)
        last = view.read(len(view) - 1, len(view))
        self.memory_time = float(self.log.seconds(last.columns.time)[0])


def _columns(src_B: Dense, dst_B: Dense, time_B: Times) -> EventColumns:
    return EventColumns(
        src_B.astype(np.int32), dst_B.astype(np.int32), time_B, np.zeros(len(src_B), np.float32)
    )
