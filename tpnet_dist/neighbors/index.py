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

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tpnet_dist.keyed_random import SampleKey, fractions_of

LOW_BITS, TOP_BITS = 16, 8
BYTES_PER_STEP = 16
BYTES_PER_ENTRY = 10
"""About; an event has two entries."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Neighbors:
    """Oldest first; empty slots come first of all, masked False, with id -1, event -1 and time 0."""

    ids_BM: Tensor
    events_BM: Tensor
    times_BM: Tensor
    mask_BM: Tensor

    def split(self, sizes: list[int]) -> Iterator["Neighbors"]:
        """Of so many queries each."""
        columns = (self.ids_BM, self.events_BM, self.times_BM, self.mask_BM)
        return (
            Neighbors(*parts)
            for parts in zip(*(column.split_with_sizes(sizes) for column in columns), strict=True)
        )


class NeighborLookup(Protocol):
    """Who answers: an index of some nodes, one spread over ranks, or one that grows."""

    def recent(self, node_B: Tensor, before_event_B: Tensor, *, count: int) -> Neighbors: ...
    def uniform(
        self, node_B: Tensor, before_event_B: Tensor, query_B: Tensor, *, count: int, key: SampleKey
    ) -> Neighbors: ...


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
    step_events: Tensor
    step_times: Tensor

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
        drawn_BM = fractions_of(key, query_B, count).mul_(size_B1).to(torch.int64)
        place_BM = _sort_rows(drawn_BM.add_(begin_B[:, None] + 1))
        return self._read(place_BM, (size_B1 > 0).repeat(1, count))

    def num_before(self, node_B: Tensor, before_event_B: Tensor) -> Tensor:
        """How many interactions each node has among the events below its bound."""
        begin_B, end_B = self._history(node_B, before_event_B)
        return end_B - begin_B

    def at(self, node_B: Tensor, place_BM: Tensor, mask_BM: Tensor) -> Neighbors:
        """Interactions of each node by their places in its history, 0 being the oldest."""
        begin_B = self.starts.index_select(0, node_B - self.first_node).to(torch.int64)
        return self._read(begin_B[:, None] + 1 + place_BM, mask_BM)

    def _tensors(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def _history(self, node_B: Tensor, before_event_B: Tensor) -> tuple[Tensor, Tensor]:
        """The place before a node's entries and that of its last below the bound; one bisection for all."""
        row_B = node_B - self.first_node
        begin_B = self.starts.index_select(0, row_B).to(torch.int64)
        stop_B = self.starts.index_select(0, row_B + 1).to(torch.int64)
        shift = self.id_bits + self.mid_bits
        # words count events from 1, so those up to the bound's own number lie before it
        last_word_B = (before_event_B.to(torch.int64).clamp(0, self.end_event) << shift) | ones(shift)
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
        ids_BM = (word_BM >> self.mid_bits).bitwise_and_(ones(self.id_bits)).sub_(1)
        time_BM = word_BM.bitwise_and_(ones(self.mid_bits)).bitwise_left_shift_(LOW_BITS)
        time_BM.bitwise_or_(low_BM.to(torch.int64).bitwise_and_(ones(LOW_BITS)))
        if len(self.tops):
            top_BM = self.tops.index_select(0, place).view(mask_BM.shape).to(torch.int64)
            time_BM.bitwise_or_(top_BM.bitwise_and_(ones(TOP_BITS)) << (LOW_BITS + self.mid_bits))
        time_BM.bitwise_or_(self._high_bits(events_BM)).mul_(mask_BM)
        return Neighbors(ids_BM, events_BM, time_BM.view(self.time_dtype), mask_BM)

    def _high_bits(self, events_BM: Tensor) -> Tensor:
        if len(self.step_times) == 1:
            return self.step_times
        step_BM = torch.searchsorted(self.step_events, events_BM, right=True).sub_(1)
        return self.step_times.index_select(0, step_BM.view(-1)).view(events_BM.shape)


def ones(bits: int) -> int:
    """That many low bits set."""
    return (1 << bits) - 1


def _sort_rows(rows: Tensor) -> Tensor:
    """In place on the host, where numpy takes a fifth of torch's time for short rows."""
    if rows.device.type != "cpu":
        return rows.sort(dim=1).values
    rows.numpy().sort(axis=1)
    return rows
