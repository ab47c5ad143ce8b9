"""Who met whom, and when: the interactions of a block of nodes before any event of the log.

Letters: B queries, M neighbours per query, E events, H steps of the time. An event gives one entry at each
end, so a self-loop gives its node two. Entries lie node by node, oldest first; `starts` holds the borders.

An entry takes ten bytes, a word of 63 bits and 16 bits of time; any int64 or float64 time stays exact:

    word   event index + 1 (as many bits as the log needs) | neighbour id + 1 (likewise) | middle of the time
    low    the low 16 bits of the time
    top    8 bits above the middle, an eleventh byte where it spares more than that in steps
    steps  the high bits of the time, once for each run of events over which they stay the same

Why so: four bytes each for neighbour and event leave four of twelve for the time, and nothing for `starts`.
A float32 offset is not exact; eight-byte times by event would be repeated on every rank. But few logs use
32 + 32 bits: 1e7 events among 2e5 nodes leave 37 bits to the time, 1e8 among 2e6 leave 31. So a log in
seconds has one step or two, in milliseconds over ten years 150; nanoseconds take the eleventh byte.
Nothing is shared, so this holds on any number of ranks. `starts` adds four bytes per node, so a block passes
twelve bytes if its nodes have fewer than two entries on average (four with `top`), and else only beyond 1e9
events in nanoseconds.
Words sort by event, so one comparison of words says "before this event".
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tpnet_dist.errors import InputError

MAX_EVENTS = 2**32 - 1
LOW_BITS, TOP_BITS = 16, 8
BYTES_PER_STEP = 16
GOLDEN = 0x9E3779B97F4A7C15

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EventChunk:
    """Consecutive events in time order; `index` is each one's place in the log and may have gaps."""

    src: npt.NDArray[np.int32]
    dst: npt.NDArray[np.int32]
    time: npt.NDArray[np.int64] | npt.NDArray[np.float64]
    index: Integers


class SampleKey(NamedTuple):
    """What `uniform` draws by, beside the number of the query and the slot."""

    seed: int
    epoch: int


@dataclass(frozen=True)
class Neighbors:
    """Oldest first; empty slots come first of all, masked False, with id -1, event -1 and time 0."""

    ids_BM: Tensor
    events_BM: Tensor
    times_BM: Tensor
    mask_BM: Tensor

    def ids_padded_with(self, node: int) -> Tensor:
        """For those who look up a row for every slot: an id that exists, where there is no neighbour."""
        return self.ids_BM.masked_fill(~self.mask_BM, node)


@dataclass(frozen=True)
class NeighborIndex:
    """The interactions of nodes first_node … stop_node-1, for queries on those nodes only."""

    first_node: int
    stop_node: int
    max_degree: int
    end_event: int
    id_bits: int
    mid_bits: int
    time_dtype: torch.dtype
    starts: Tensor
    words: Tensor
    """From place 1 on. Place 0 is nobody's and zero, which reads as id -1, event -1."""
    lows: Tensor
    tops: Tensor
    """Empty where the steps alone are cheaper."""
    step_events_H: Tensor
    step_times_H: Tensor

    @staticmethod
    def build(chunks: Callable[[], Iterable[EventChunk]], first_node: int, stop_node: int) -> "NeighborIndex":
        """Read the events twice, to count and to place; beyond the index this takes a few times one chunk."""
        census = _Census(first_node, stop_node)
        for chunk in chunks():
            census.count(chunk)
        placement = _Placement(census)
        for chunk in chunks():
            placement.place(chunk)
        return placement.finish()

    @property
    def num_entries(self) -> int:
        return len(self.words) - 1

    def bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self._tensors().values())

    def to(self, device: torch.device | str) -> "NeighborIndex":
        moved: dict[str, Any] = {name: tensor.to(device) for name, tensor in self._tensors().items()}
        return replace(self, **moved)

    def recent(self, node_B: Tensor, before_event_B: Tensor, *, count: int) -> Neighbors:
        """The last `count` interactions of each node among the events below its bound."""
        begin_B, end_B = self._history(node_B, before_event_B)
        place_BM = end_B[:, None] + torch.arange(1 - count, 1, device=end_B.device)
        return self._read(place_BM, place_BM > begin_B[:, None])

    def uniform(
        self, node_B: Tensor, before_event_B: Tensor, query_B: Tensor, *, count: int, key: SampleKey
    ) -> Neighbors:
        """`count` draws with replacement from each node's interactions below its bound, in order of time.

        `query_B` numbers the query within the epoch, whoever answers it: the draws depend on that and the key
        alone. A node with any history fills all its slots.
        """
        begin_B, end_B = self._history(node_B, before_event_B)
        size_B1 = (end_B - begin_B)[:, None]
        drawn_BM = _fractions(key, query_B, count).mul_(size_B1).to(torch.int64)
        place_BM = _sort_rows(drawn_BM.add_(begin_B[:, None] + 1))
        return self._read(place_BM, (size_B1 > 0).repeat(1, count))

    def _tensors(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def _history(self, node_B: Tensor, before_event_B: Tensor) -> tuple[Tensor, Tensor]:
        """The place before a node's entries and that of its last below the bound; one bisection for all."""
        row_B = node_B - self.first_node
        begin_B = self.starts.index_select(0, row_B).to(torch.int64)
        stop_B = self.starts.index_select(0, row_B + 1).to(torch.int64)
        shift = self.id_bits + self.mid_bits
        # words count events from 1, so those up to the bound's own number lie before it
        last_word_B = (before_event_B.to(torch.int64).clamp(0, self.end_event) << shift) | _ones(shift)
        end_B = begin_B
        for power in reversed(range(self.max_degree.bit_length())):
            # a node without entries probes the place where it stands already
            probe_B = torch.minimum(end_B + (1 << power), stop_B)
            end_B = torch.where(self.words.index_select(0, probe_B) <= last_word_B, probe_B, end_B)
        return begin_B, end_B

    def _read(self, place_BM: Tensor, mask_BM: Tensor) -> Neighbors:
        """Unpack the entries, in place where that spares a buffer: this is half the cost of a query."""
        place = place_BM.mul_(mask_BM).view(-1)
        word_BM = self.words.index_select(0, place).view(mask_BM.shape)
        low_BM = self.lows.index_select(0, place).view(mask_BM.shape)
        events_BM = (word_BM >> (self.id_bits + self.mid_bits)).sub_(1)
        ids_BM = (word_BM >> self.mid_bits).bitwise_and_(_ones(self.id_bits)).sub_(1)
        time_BM = word_BM.bitwise_and_(_ones(self.mid_bits)).bitwise_left_shift_(LOW_BITS)
        time_BM.bitwise_or_(low_BM.to(torch.int64).bitwise_and_(_ones(LOW_BITS)))
        if len(self.tops):
            top_BM = self.tops.index_select(0, place).view(mask_BM.shape).to(torch.int64)
            time_BM.bitwise_or_(top_BM.bitwise_and_(_ones(TOP_BITS)) << (LOW_BITS + self.mid_bits))
        time_BM.bitwise_or_(self._high_bits(events_BM)).mul_(mask_BM)
        return Neighbors(ids_BM, events_BM, time_BM.view(self.time_dtype), mask_BM)

    def _high_bits(self, events_BM: Tensor) -> Tensor:
        if len(self.step_times_H) == 1:
            return self.step_times_H
        step_BM = torch.searchsorted(self.step_events_H, events_BM, right=True).sub_(1)
        return self.step_times_H.index_select(0, step_BM.view(-1)).view(events_BM.shape)


def first_event_at(times_E: Tensor, query_times_B: Tensor, first_event: int = 0) -> Tensor:
    """Bounds for "strictly before t": the first event at t or later.

    `times_E` are the times of consecutive events from number `first_event` on; where it is not the whole log,
    it begins no later than the first event at any time asked for.
    """
    return torch.searchsorted(times_E, query_times_B) + first_event


class _Census:
    """The first pass: how many entries each node has, how many bits events and ids need."""

    def __init__(self, first_node: int, stop_node: int) -> None:
        assert 0 <= first_node <= stop_node, (first_node, stop_node)
        self.first_node, self.stop_node = first_node, stop_node
        self.degrees: Integers = np.zeros(stop_node - first_node, np.int64)
        self.last_node, self.last_event = -1, -1
        self.time_dtype = torch.int64
        self.first_time, self.last_time = 0, 0

    def count(self, chunk: EventChunk) -> None:
        if not len(chunk.index):
            return
        assert chunk.index[0] > self.last_event and (np.diff(chunk.index) > 0).all(), "events out of order"
        assert (np.diff(chunk.time) >= 0).all(), "times out of order"
        bits = chunk.time.view(np.int64)
        self.first_time = self.first_time if self.last_event >= 0 else int(bits[0])
        self.last_time = int(bits[-1])
        self.last_event = int(chunk.index[-1])
        if self.last_event >= MAX_EVENTS:
            raise InputError(
                f"event {self.last_event:,}: the neighbour index holds logs of up to {MAX_EVENTS:,} events; "
                "use a part of the log"
            )
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
        middle = (time >> LOW_BITS) & _ones(self.mid_bits)
        word = ((((event + 1) << self.id_bits) | (neighbor + 1)) << self.mid_bits) | middle
        target, order = self._targets(node)
        self.words[target] = word[order]
        self.lows[target] = time.astype(np.int16)[order]
        if len(self.tops):
            self.tops[target] = (time >> (LOW_BITS + self.mid_bits)).astype(np.int8)[order]
        self._note_steps(event, time >> self.step_bits)

    def _targets(self, node: npt.NDArray[np.int32]) -> tuple[Integers, Integers]:
        """Where the chunk's entries go, in ascending order, and which entry goes there."""
        # sorting distinct keys is twenty times faster than a stable argsort of the nodes
        key = np.sort((node.astype(np.int64) << 32) | np.arange(len(node)))
        node_sorted = key >> 32
        group = np.flatnonzero(np.diff(node_sorted, prepend=-1))
        size = np.diff(group, append=len(node))
        cursor = self.cursors[node_sorted[group]]
        self.cursors[node_sorted[group]] = cursor + size
        return np.repeat(cursor - group, size) + np.arange(len(node)), key & _ones(32)

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
            step_events_H=torch.from_numpy(step_events),
            step_times_H=torch.from_numpy(step_highs << self.step_bits),
        )


def _entries(
    chunk: EventChunk, first_node: int, stop_node: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], Integers]:
    """Each end in the block of each event: node (the block's first is 0), neighbour, row of the chunk."""
    node = np.stack((chunk.src, chunk.dst), axis=1).ravel()
    neighbor = np.stack((chunk.dst, chunk.src), axis=1).ravel()
    kept = np.flatnonzero((node >= first_node) & (node < stop_node))
    return node[kept] - first_node, neighbor[kept], kept >> 1


def _sort_rows(rows: Tensor) -> Tensor:
    """In place on the host, where numpy takes a fifth of torch's time for short rows."""
    if rows.device.type != "cpu":
        return rows.sort(dim=1).values
    rows.numpy().sort(axis=1)
    return rows


def _fractions(key: SampleKey, query_B: Tensor, count: int) -> Tensor:
    """Numbers in [0, 1) that depend on key, query and slot alone: SplitMix64 of a counter, 52 bits of it."""
    state_B = _mix(query_B.to(torch.int64) + _signed(GOLDEN * (key.seed + 1)))
    state_B = _mix(state_B + _signed(GOLDEN * (key.epoch + 1)))
    slot_M = torch.arange(1, count + 1, device=query_B.device) * _signed(GOLDEN)
    return _shift(_mix(state_B[:, None] + slot_M), 12).to(torch.float64).mul_(2.0**-52)


def _mix(state: Tensor) -> Tensor:
    state = _shift(state, 30).bitwise_xor_(state).mul_(_signed(0xBF58476D1CE4E5B9))
    state = _shift(state, 27).bitwise_xor_(state).mul_(_signed(0x94D049BB133111EB))
    return _shift(state, 31).bitwise_xor_(state)


def _shift(state: Tensor, bits: int) -> Tensor:
    """To the right as if unsigned; torch's own shift repeats the sign."""
    return (state >> bits).bitwise_and_(_ones(64 - bits))


def _signed(value: int) -> int:
    """The same 64 bits as an int64."""
    return (value + 2**63) % 2**64 - 2**63


def _ones(bits: int) -> int:
    return (1 << bits) - 1
