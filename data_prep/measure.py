"""Measure an event log in bounded memory: one pass, or several when distinct edges are too many for one."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.values import kind_of_ids
from tpnet_dist.errors import InputError
from tpnet_dist.events import EventColumns, EventLog
from tpnet_dist.events.file_records import Version
from tpnet_dist.events.manifest import MANIFEST_NAME
from tpnet_dist.events.preparation import Preparation
from tpnet_dist.events.shards import Times
from tpnet_dist.events.split import split_log
from tpnet_dist.events.timescales import timescales_of

PASS_EVENTS = 20_000_000
"""Edge keys expected in memory at once (8 bytes each, twice that while sorting)."""
CHUNK_EVENTS = 500_000
HISTOGRAM_BINS = 48
_FIRST_EVENTS, _FIRST_FEATURES = 3, 6
BLOCK_COUNTS = (2, 4, 8)
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class DegreeSummary:
    """Events per node, over all nodes; a self-loop counts twice, percentiles are values that occur."""

    min: int
    p50: int
    p90: int
    p99: int
    max: int
    mean: float


@dataclass(frozen=True, kw_only=True)
class BlockBalance:
    """How evenly ranks would share the work if each owned one contiguous block of node ids."""

    blocks: int
    largest_over_fair: float
    """Degree of the fullest block ÷ (total degree ÷ blocks); 1 is perfect."""


@dataclass(frozen=True, kw_only=True)
class ShardSummary:
    file: str
    rows: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class TimeHistogram:
    """Bins of equal width; bin i holds the times from `starts[i]` up to but not including the next start."""

    starts: tuple[int | float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class LogSummary:
    """What `describe` tells about a log. Times are in the log's own ticks."""

    events: int
    nodes: int
    ids: str
    """Whether raw ids are text or whole numbers."""
    odd_ids: str
    """How many ids are no whole numbers, where most are and all became text; else empty."""
    nodes_with_events: int
    sources: int
    destinations: int
    nodes_on_both_sides: int
    bipartite: bool
    first_time: int | float
    last_time: int | float
    time_unit: str
    seconds_per_tick: float
    span_seconds: float
    auto_decay: tuple[float, ...]
    """The λ that `memory.decay auto` takes, per second, with the default parts; empty if the log has no such
    parts."""
    distinct_times: int
    events_per_distinct_time: float
    largest_equal_time_group: int
    self_loops: int
    distinct_edges: int
    """Ordered (source, destination) pairs."""
    repeated_edges: int
    """Events whose ordered pair occurred earlier."""
    degree: DegreeSummary
    block_balance: tuple[BlockBalance, ...]
    has_labels: bool
    edge_feature_width: int
    node_feature_width: int
    bytes_on_disk: int
    shards: tuple[ShardSummary, ...]
    time_histogram: TimeHistogram
    first_values: tuple[tuple[str, tuple[str | float, ...]], ...]
    """Values of the first events: source, destination, time, label, then some of the edge features."""
    preparation: Preparation | None
    """What the manifest says of how the log was prepared."""
    versions: tuple[Version, ...]
    """The log as it was converted, then as it was after each append."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def events_to_read(log: EventLog, *, pass_events: int = PASS_EVENTS) -> int:
    """Return the sum of what `measure` will report as progress: the log's events times the passes over it."""
    return len(log) * _num_passes(log, pass_events)


def measure(log: EventLog, progress: Callable[[int], None], *, pass_events: int = PASS_EVENTS) -> LogSummary:
    """Stream the log; `progress` gets the number of events just read, `events_to_read` in sum."""
    nodes, times, distinct_edges = _NodeTotals(log.num_nodes), _TimeTotals(log), 0
    num_passes = _num_passes(log, pass_events)
    for number in range(num_passes):
        edges = _DistinctEdges(log.num_nodes, number, num_passes, capacity=len(log) // num_passes)
        for events in log.stream(chunk_events=CHUNK_EVENTS):
            if number == 0:
                nodes.add(events)
                times.add(events.time)
            edges.add(events)
            progress(len(events))
        distinct_edges += edges.count()
    return _summarise(log, nodes, times, distinct_edges)


def _num_passes(log: EventLog, pass_events: int) -> int:
    return -(-len(log) // pass_events)


def _auto_decay(log: EventLog) -> tuple[float, ...]:
    try:
        return timescales_of(split_log(log).train)
    except InputError:
        return ()


def _summarise(log: EventLog, nodes: "_NodeTotals", times: "_TimeTotals", distinct_edges: int) -> LogSummary:
    manifest, degree = log.manifest, nodes.out_degree + nodes.in_degree
    assert times.last == manifest.last_time, (times.last, manifest.last_time)
    table = log.raw_ids()
    sides = (
        [table.filter(pc.equal(table["side"], side)) for side in ("src", "dst")]
        if manifest.bipartite
        else [table]
    )
    kinds = [kind_of_ids(side.column("raw_id")) for side in sides]
    return LogSummary(
        events=len(log),
        nodes=log.num_nodes,
        ids=kinds[0][0],
        odd_ids="; ".join(few for _, few in kinds if few),
        nodes_with_events=int(np.count_nonzero(degree)),
        sources=int(np.count_nonzero(nodes.out_degree)),
        destinations=int(np.count_nonzero(nodes.in_degree)),
        nodes_on_both_sides=int(np.count_nonzero((nodes.out_degree > 0) & (nodes.in_degree > 0))),
        bipartite=manifest.bipartite,
        first_time=manifest.first_time,
        last_time=manifest.last_time,
        time_unit=manifest.time_unit,
        seconds_per_tick=manifest.seconds_per_tick,
        span_seconds=manifest.span_seconds,
        auto_decay=_auto_decay(log),
        distinct_times=times.distinct,
        events_per_distinct_time=len(log) / times.distinct,
        largest_equal_time_group=times.largest_group,
        self_loops=nodes.self_loops,
        distinct_edges=distinct_edges,
        repeated_edges=len(log) - distinct_edges,
        degree=_degree_summary(degree),
        block_balance=tuple(_block_balance(degree, blocks) for blocks in BLOCK_COUNTS),
        has_labels=manifest.has_labels,
        edge_feature_width=manifest.edge_features.width if manifest.edge_features else 0,
        node_feature_width=manifest.node_features.width if manifest.node_features else 0,
        bytes_on_disk=_bytes_on_disk(log),
        shards=tuple(ShardSummary(file=s.file, rows=s.rows, bytes=s.bytes) for s in manifest.shards),
        time_histogram=times.histogram(),
        first_values=tuple(_first_values(log).items()),
        preparation=manifest.preparation,
        versions=manifest.history,
    )


def _first_values(log: EventLog) -> dict[str, tuple[str | float, ...]]:
    events, raw = log.read(0, min(_FIRST_EVENTS, len(log))), log.raw_ids().column("raw_id")
    found: dict[str, tuple[str | float, ...]] = {
        "source": tuple(raw.take(pa.array(events.src)).to_pylist()),
        "destination": tuple(raw.take(pa.array(events.dst)).to_pylist()),
        "time": tuple(events.time.tolist()),
    }
    if log.manifest.has_labels:
        found["label"] = tuple(events.label.tolist())
    if log.edge_features is not None:
        preparation = log.manifest.preparation
        names = [] if preparation is None else list(preparation.feature_names)
        rows = np.asarray(log.edge_features[: len(events)])
        for number in range(min(_FIRST_FEATURES, rows.shape[1])):
            name = names[number] if len(names) == rows.shape[1] else f"number {number}"
            found[f"feature {name}"] = tuple(rows[:, number].tolist())
    return found


class _NodeTotals:
    def __init__(self, num_nodes: int) -> None:
        self.out_degree: Counts = np.zeros(num_nodes, np.int64)
        self.in_degree: Counts = np.zeros(num_nodes, np.int64)
        self.self_loops = 0

    def add(self, events: EventColumns) -> None:
        # unlike bincount, costs nothing for the nodes that are not in the chunk
        np.add.at(self.out_degree, events.src, 1)
        np.add.at(self.in_degree, events.dst, 1)
        self.self_loops += int(np.count_nonzero(events.src == events.dst))


class _TimeTotals:
    """Groups of equal times and the histogram; both rely on times never going back."""

    def __init__(self, log: EventLog) -> None:
        self.distinct = 0
        self.largest_group = 0
        self.last: int | float | None = None
        self._open_group = 0
        self._starts = _bin_starts(log.manifest.first_time, log.manifest.last_time)
        self._borders = np.array(self._starts[1:], log.manifest.time_dtype)
        self._counts: Counts = np.zeros(len(self._starts), np.int64)

    def add(self, time: Times) -> None:
        assert np.all(time[1:] >= time[:-1]), "an event log is in time order"
        assert self.last is None or time[0] >= self.last, "an event log is in time order"
        group_starts = np.flatnonzero(time[1:] != time[:-1]) + 1
        group_sizes = np.diff(group_starts, prepend=0, append=len(time))
        if time[0] == self.last:
            group_sizes[0] += self._open_group
        else:
            self.distinct += 1
        self.distinct += len(group_starts)
        self.largest_group = max(self.largest_group, int(group_sizes.max()))
        self._open_group, self.last = int(group_sizes[-1]), time[-1].item()
        self._counts += np.diff(np.searchsorted(time, self._borders), prepend=0, append=len(time))

    def histogram(self) -> TimeHistogram:
        return TimeHistogram(starts=self._starts, counts=tuple(self._counts.tolist()))


class _DistinctEdges:
    """Count the distinct (source, destination) keys of one of `num_classes` hash classes, exactly.

    Equal keys share a class, so the counts of all classes add up. Keys gather in a buffer which drops
    repetitions when it is full: a pair that fills half the log does not fill the memory.
    """

    def __init__(self, num_nodes: int, number: int, num_classes: int, *, capacity: int) -> None:
        self._num_nodes, self._class, self._num_classes = num_nodes, number, num_classes
        self._keys = np.empty(capacity + capacity // 8, np.uint64)
        self._size = 0

    def add(self, events: EventColumns) -> None:
        keys = events.src.astype(np.uint64) * np.uint64(self._num_nodes) + events.dst.astype(np.uint64)
        if self._num_classes > 1:
            keys = keys[self._class_of(keys) == self._class]
        self._make_room(len(keys))
        self._keys[self._size : self._size + len(keys)] = keys
        self._size += len(keys)

    def count(self) -> int:
        return int(np.count_nonzero(self._sort_and_mark()))

    def _class_of(self, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        high_bits = (keys * _HASH_MULTIPLIER) >> np.uint64(32)
        classes: npt.NDArray[np.uint64] = (high_bits * np.uint64(self._num_classes)) >> np.uint64(32)
        return classes

    def _make_room(self, num_keys: int) -> None:
        if self._size + num_keys <= len(self._keys):
            return
        distinct = self._keys[: self._size][self._sort_and_mark()]
        self._size = len(distinct)
        if self._size + num_keys > len(self._keys):
            self._keys = np.empty(2 * (self._size + num_keys), np.uint64)
        self._keys[: self._size] = distinct

    def _sort_and_mark(self) -> npt.NDArray[np.bool_]:
        """Sort in place and mark the first of each run. Three times as fast as a hash set (polars)."""
        keys = self._keys[: self._size]
        keys.sort()
        is_first = np.ones(self._size, np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
        return is_first


def _bin_starts(first: int | float, last: int | float) -> tuple[int | float, ...]:
    """Return where each bin begins. Whole times get no more bins than ticks, so none is empty by
    construction."""
    if isinstance(first, int) and isinstance(last, int):
        ticks = last - first + 1
        bins = min(HISTOGRAM_BINS, ticks)
        return tuple(first - (-ticks * bin // bins) for bin in range(bins))
    bins = HISTOGRAM_BINS if last > first else 1
    return tuple(first + (last - first) * bin / bins for bin in range(bins))


def _degree_summary(degree: Counts) -> DegreeSummary:
    low, middle, p90, p99, high = np.percentile(degree, [0, 50, 90, 99, 100], method="inverted_cdf").tolist()
    return DegreeSummary(min=low, p50=middle, p90=p90, p99=p99, max=high, mean=float(degree.mean()))


def _block_balance(degree: Counts, blocks: int) -> BlockBalance:
    block_size = -(-len(degree) // blocks)
    largest = np.add.reduceat(degree, np.arange(0, len(degree), block_size)).max()
    return BlockBalance(blocks=blocks, largest_over_fair=float(largest * blocks / degree.sum()))


def _bytes_on_disk(log: EventLog) -> int:
    manifest_bytes = (log.folder / MANIFEST_NAME).stat().st_size
    return manifest_bytes + sum(record.bytes for record in log.manifest.files())
