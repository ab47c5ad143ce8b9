"""Who met whom, and when: the interactions of a block of nodes before any event of the log.

An event gives one entry at each end, so a self-loop gives its node two. Entries lie node by node, oldest
first; `starts` holds the borders.

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

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.neighbors.interval_weights import IntervalWeights, RunningSums, as_tensors, weigh
from tpnet_dist.neighbors.samplers import Queries, Sampler, Slots, recent

LOW_BITS, TOP_BITS = 16, 8
BYTES_PER_STEP = 16
BYTES_PER_ENTRY = 10
"""The approximate bytes of an entry; an event has two entries."""

_ENTRIES_AT_ONCE = 1 << 20
_NO_KEY = SampleKey(0, 0)

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Neighbors:
    """Oldest first; empty slots come first of all, masked False, with id -1, event -1 and time 0."""

    ids_BM: Tensor
    events_BM: Tensor
    times_BM: Tensor
    mask_BM: Tensor

    def repeats(self) -> Tensor:
        """Return whether each slot holds the interaction of the slot before it: (B, M)."""
        same_BM = self.events_BM[:, 1:] == self.events_BM[:, :-1]
        return self.mask_BM & F.pad(same_BM, (1, 0))

    def split(self, sizes: list[int]) -> Iterator["Neighbors"]:
        """Split the interactions into parts of so many queries each."""
        columns = (self.ids_BM, self.events_BM, self.times_BM, self.mask_BM)
        return (
            Neighbors(*parts)
            for parts in zip(*(column.split_with_sizes(sizes) for column in columns), strict=True)
        )


class NeighborLookup:
    """Answers queries: an index of some nodes, one spread over ranks, or one that grows."""

    def sample(self, queries: Queries, sampler: Sampler, *, count: int, key: SampleKey) -> Neighbors:
        """Return `count` of the interactions that each query may choose from, as the sampler chooses."""
        raise NotImplementedError

    def longest(self, queries: Queries, group_B: Tensor, num_groups: int) -> Tensor:
        """How many interactions the query that may choose from most has, of each group of queries; 0 without
        any."""
        raise NotImplementedError

    def recent(self, node_B: Tensor, before_event_B: Tensor, *, count: int) -> Neighbors:
        """Return the last `count` interactions of each node among the events below its bound."""
        return self.sample(Queries(node_B, before_event_B), recent, count=count, key=_NO_KEY)


@dataclass(frozen=True)
class NeighborIndex(NeighborLookup):
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
    """Entries from place 1 on. Place 0 is nobody's and zero, which reads as id -1, event -1."""
    lows: Tensor
    tops: Tensor
    """Empty where the steps alone are cheaper."""
    step_events: Tensor
    step_times: Tensor
    weights: IntervalWeights | None = None
    """The weights that `time_interval_aware` draws by; see `weighted`."""

    @property
    def num_entries(self) -> int:
        return len(self.words) - 1

    def bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self._tensors().values())

    def sample(self, queries: Queries, sampler: Sampler, *, count: int, key: SampleKey) -> Neighbors:
        histories = IndexHistories.of(self, queries)
        place_BM = sampler(histories, Slots(count, key, queries))
        mask_BM = place_BM >= 0
        return self._read(place_BM + histories.begin_B[:, None] + 1, mask_BM)

    def longest(self, queries: Queries, group_B: Tensor, num_groups: int) -> Tensor:
        return largest_of_groups(IndexHistories.of(self, queries).sizes(), group_B, num_groups)

    def weighted(self, scaling: float) -> "NeighborIndex":
        """Return this index with weights for `time_interval_aware`; `scaling`: α per unit of time."""
        starts = self.starts.numpy().astype(np.int64)
        pieces = range(1, self.num_entries + 1, _ENTRIES_AT_ONCE)
        times = [
            self.times_at(torch.arange(start, min(start + _ENTRIES_AT_ONCE, self.num_entries + 1))).double()
            for start in pieces
        ]
        time_E = torch.cat(times).numpy() if times else np.empty(0)
        sum_E, until_E = weigh(starts, time_E, scaling, RunningSums.none(len(starts) - 1))
        has_entries_N = starts[1:] > starts[:-1]
        sum_N = np.where(has_entries_N, np.concatenate([[0.0], sum_E])[starts[1:]], 0.0)
        return replace(self, weights=as_tensors(scaling, until_E, sum_N))

    def history(self, queries: Queries) -> tuple[Tensor, Tensor]:
        """Return the place before each node's entries, and how many of them the query may choose from."""
        row_B = queries.node_B - self.first_node
        begin_B = self.starts.index_select(0, row_B).to(torch.int64)
        stop_B = self.starts.index_select(0, row_B + 1).to(torch.int64)
        return begin_B, self._last_before(queries, begin_B, stop_B) - begin_B

    def weight_until(self, place: Tensor) -> Tensor:
        """Return the weights added up until each place in the index; any value for places without an
        entry."""
        assert self.weights is not None, "time_interval_aware needs an index with weights; call weighted"
        until = self.weights.until
        return until.index_select(0, place.view(-1).clamp(max=len(until) - 1)).view(place.shape)

    def at(self, node_B: Tensor, place_BM: Tensor, mask_BM: Tensor) -> Neighbors:
        """Return interactions of each node by their places in its history, 0 being the oldest."""
        begin_B = self.starts.index_select(0, node_B - self.first_node).to(torch.int64)
        return self._read(begin_B[:, None] + 1 + place_BM, mask_BM)

    def _tensors(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def _last_before(self, queries: Queries, begin_B: Tensor, stop_B: Tensor) -> Tensor:
        """Return the place of each node's last entry before its bound; one bisection for all."""
        is_before: Callable[[Tensor], Tensor]
        if queries.by_time:
            time_B = queries.before_B.to(self.time_dtype)
            is_before = lambda place_B: self.times_at(place_B) < time_B  # noqa: E731
        else:
            shift = self.id_bits + self.mid_bits
            # words count events from 1, so those up to the bound's own number lie before it
            event_B = queries.before_B.to(torch.int64).clamp(0, self.end_event)
            last_word_B = (event_B << shift) | ones(shift)
            is_before = lambda place_B: self.words.index_select(0, place_B) <= last_word_B  # noqa: E731
        end_B = begin_B
        for power in reversed(range(self.max_degree.bit_length())):
            probe_B = torch.minimum(end_B + (1 << power), stop_B)
            # a node without entries probes the place where it stands already
            end_B = torch.where(is_before(probe_B), probe_B, end_B)
        return end_B

    def times_at(self, place_B: Tensor) -> Tensor:
        """Return the times of entries."""
        word_B = self.words.index_select(0, place_B)
        return self._times(place_B, word_B, self._events(word_B)).view(self.time_dtype)

    def _read(self, place_BM: Tensor, mask_BM: Tensor) -> Neighbors:
        """Unpack the entries, in place where that spares a buffer: this is half the cost of a query."""
        place = place_BM.mul_(mask_BM).view(-1)
        word = self.words.index_select(0, place)
        events = self._events(word)
        ids = (word >> self.mid_bits).bitwise_and_(ones(self.id_bits)).sub_(1)
        times = self._times(place, word, events).mul_(mask_BM.view(-1)).view(self.time_dtype)
        ids_BM, events_BM, times_BM = (column.view(mask_BM.shape) for column in (ids, events, times))
        return Neighbors(ids_BM, events_BM, times_BM, mask_BM)

    def _events(self, word: Tensor) -> Tensor:
        return (word >> (self.id_bits + self.mid_bits)).sub_(1)

    def _times(self, place: Tensor, word: Tensor, event: Tensor) -> Tensor:
        """Return the 64 bits of entries' times; the words are overwritten."""
        time = word.bitwise_and_(ones(self.mid_bits)).bitwise_left_shift_(LOW_BITS)
        time.bitwise_or_(self.lows.index_select(0, place).to(torch.int64).bitwise_and_(ones(LOW_BITS)))
        if len(self.tops):
            top = self.tops.index_select(0, place).to(torch.int64)
            time.bitwise_or_(top.bitwise_and_(ones(TOP_BITS)) << (LOW_BITS + self.mid_bits))
        return time.bitwise_or_(self._high_bits(event))

    def _high_bits(self, event: Tensor) -> Tensor:
        if len(self.step_times) == 1:
            return self.step_times
        step = torch.searchsorted(self.step_events, event, right=True).sub_(1)
        return self.step_times.index_select(0, step)


@dataclass(frozen=True)
class IndexHistories:
    """The entries of one index that queries may choose from."""

    index: NeighborIndex
    begin_B: Tensor
    """The place before the first entry."""
    size_B: Tensor

    @classmethod
    def of(cls, index: NeighborIndex, queries: Queries) -> "IndexHistories":
        return cls(index, *index.history(queries))

    def sizes(self) -> Tensor:
        return self.size_B

    def max_size(self) -> int:
        return self.index.max_degree

    def weight_until(self, place_BM: Tensor) -> Tensor:
        return self.index.weight_until(self.begin_B[:, None] + 1 + place_BM)


def largest_of_groups(size_B: Tensor, group_B: Tensor, num_groups: int) -> Tensor:
    return torch.zeros(num_groups, dtype=torch.int64).scatter_reduce_(0, group_B, size_B, "amax")


def ones(bits: int) -> int:
    """Return a number with that many low bits set."""
    return (1 << bits) - 1
