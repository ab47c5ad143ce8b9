"""Build a neighbour index from the event stream in two passes: count, then place. Layout: neighbors.py."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from tpnet_dist.errors import InputError
from tpnet_dist.neighbors.index import BYTES_PER_STEP, LOW_BITS, TOP_BITS, NeighborIndex, ones

MAX_EVENTS = 2**32 - 1

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EventChunk:
    """Consecutive events in time order; `index` is each one's place in the log and may have gaps."""

    src: npt.NDArray[np.int32]
    dst: npt.NDArray[np.int32]
    time: npt.NDArray[np.int64] | npt.NDArray[np.float64]
    index: Integers


def build_neighbor_index(
    chunks: Callable[[], Iterable[EventChunk]], first_node: int, stop_node: int
) -> NeighborIndex:
    """Index nodes first … stop-1. `chunks` gives the events, twice; it takes a few chunks of memory more."""
    census = _Census(first_node, stop_node)
    for chunk in chunks():
        census.count(chunk)
    placement = _Placement(census)
    for chunk in chunks():
        placement.place(chunk)
    return placement.finish()


class _Census:
    """The first pass: how many entries each node has, how many bits events and ids need."""

    def __init__(self, first_node: int, stop_node: int) -> None:
        assert 0 <= first_node <= stop_node, (first_node, stop_node)
        self.first_node, self.stop_node = first_node, stop_node
        self.degrees: Integers = np.zeros(stop_node - first_node, np.int64)
        self.last_node, self.last_event = -1, -1
        self.time_dtype = torch.int64
        self.first_time, self.last_time = 0, 0
        self.newest: np.int64 | np.float64 | float = -np.inf

    def count(self, chunk: EventChunk) -> None:
        if not len(chunk.index):
            return
        assert chunk.index[0] > self.last_event and (np.diff(chunk.index) > 0).all(), "events out of order"
        assert chunk.time[0] >= self.newest, "times out of order"
        assert (chunk.time[1:] >= chunk.time[:-1]).all(), "times out of order"
        self.newest = chunk.time[-1]
        bits = chunk.time.view(np.int64)
        self.first_time = self.first_time if self.last_event >= 0 else int(bits[0])
        self.last_time = int(bits[-1])
        self.last_event = int(chunk.index[-1])
        if self.last_event >= MAX_EVENTS:
            raise InputError(
                f"event {self.last_event:,}: the neighbour index holds logs of up to {MAX_EVENTS:,} events; "
                "use a part of the log"
            )
        assert min(chunk.src.min(), chunk.dst.min()) >= 0, "a negative id"
        self.last_node = max(self.last_node, int(chunk.src.max()), int(chunk.dst.max()))
        assert self.last_node < 2**31 - 1, self.last_node
        self.time_dtype = {"int64": torch.int64, "float64": torch.float64}[chunk.time.dtype.name]
        np.add.at(self.degrees, _entries(chunk, self.first_node, self.stop_node)[0], 1)


class _Placement:
    """The second pass: a counting sort, chunk by chunk, with a cursor for each node."""

    def __init__(self, census: _Census) -> None:
        self.census = census
        self.starts: Integers = np.concatenate(([0], np.cumsum(census.degrees)))
        self.cursors = self.starts[:-1] + 1
        self.words: Integers = np.zeros(self.starts[-1] + 1, np.int64)
        self.lows: npt.NDArray[np.int16] = np.zeros(self.starts[-1] + 1, np.int16)
        self.id_bits = (census.last_node + 1).bit_length()
        event_bits = (census.last_event + 1).bit_length()
        # at most 39, so that no shift of a time reaches 64 bits
        self.mid_bits = min(63 - self.id_bits - event_bits, 39)
        self.step_bits = LOW_BITS + self.mid_bits
        steps = abs((census.last_time >> self.step_bits) - (census.first_time >> self.step_bits))
        has_tops = BYTES_PER_STEP * steps > self.starts[-1]
        self.tops: npt.NDArray[np.int8] = np.zeros(len(self.words) if has_tops else 0, np.int8)
        self.step_bits += TOP_BITS if has_tops else 0
        self.steps: list[tuple[Integers, Integers]] = []

    def place(self, chunk: EventChunk) -> None:
        node, neighbor, row = _entries(chunk, self.census.first_node, self.census.stop_node)
        if not len(node):
            return
        event, time = chunk.index[row], chunk.time.view(np.int64)[row]
        middle = (time >> LOW_BITS) & ones(self.mid_bits)
        word = ((((event + 1) << self.id_bits) | (neighbor + 1)) << self.mid_bits) | middle
        target, order = self._targets(node)
        self.words[target] = word[order]
        self.lows[target] = time.astype(np.int16)[order]
        if len(self.tops):
            self.tops[target] = (time >> (LOW_BITS + self.mid_bits)).astype(np.int8)[order]
        self._note_steps(event, time >> self.step_bits)

    def _targets(self, node: npt.NDArray[np.int32]) -> tuple[Integers, Integers]:
        """Return the places of the chunk's entries, in ascending order, and which entry goes to each."""
        # sorting distinct keys is twenty times faster than a stable argsort of the nodes
        key = np.sort((node.astype(np.int64) << 32) | np.arange(len(node)))
        node_sorted = key >> 32
        group = np.flatnonzero(np.diff(node_sorted, prepend=-1))
        size = np.diff(group, append=len(node))
        cursor = self.cursors[node_sorted[group]]
        self.cursors[node_sorted[group]] = cursor + size
        return np.repeat(cursor - group, size) + np.arange(len(node)), key & ones(32)

    def _note_steps(self, event: Integers, high: Integers) -> None:
        before = self.steps[-1][1][-1] if self.steps else ~high[0]
        changed = np.flatnonzero(np.diff(high, prepend=before))
        if len(changed):
            self.steps.append((event[changed], high[changed]))

    def finish(self) -> NeighborIndex:
        assert (self.cursors == self.starts[1:] + 1).all(), "the second pass saw other events than the first"
        steps = self.steps or [(np.zeros(1, np.int64), np.zeros(1, np.int64))]
        step_events, step_highs = map(np.concatenate, zip(*steps, strict=True))
        step_events[0] = -1  # so that an empty slot's event finds a step too
        narrow = np.int32 if self.starts[-1] < 2**31 else np.int64
        return NeighborIndex(
            first_node=self.census.first_node,
            stop_node=self.census.stop_node,
            max_degree=int(self.census.degrees.max(initial=0)),
            end_event=self.census.last_event + 1,
            id_bits=self.id_bits,
            mid_bits=self.mid_bits,
            time_dtype=self.census.time_dtype,
            starts=torch.from_numpy(self.starts.astype(narrow)),
            words=torch.from_numpy(self.words),
            lows=torch.from_numpy(self.lows),
            tops=torch.from_numpy(self.tops),
            step_events=torch.from_numpy(step_events),
            step_times=torch.from_numpy(step_highs << self.step_bits),
        )


def _entries(
    chunk: EventChunk, first_node: int, stop_node: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], Integers]:
    """Return each end in the block of each event: node (the block's first is 0), neighbour, row of the
    chunk."""
    node = np.stack((chunk.src, chunk.dst), axis=1).ravel()
    neighbor = np.stack((chunk.dst, chunk.src), axis=1).ravel()
    kept = np.flatnonzero((node >= first_node) & (node < stop_node))
    return node[kept] - first_node, neighbor[kept], kept >> 1
