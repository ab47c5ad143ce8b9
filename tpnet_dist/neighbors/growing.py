"""Who met whom, and when, in the log and in events that came after it: neighbour look-ups that grow.

    index     the log's events, packed and never changed (neighbors.py)
    settled   later entries: sorted numbers, node · 2^32 + number of the entry
    fresh     the latest entries, likewise; few, so that adding some is cheap, and now and then merged

Event e of the later ones gives entries 2e, of its source, and 2e + 1, of its destination. So the entries of a
node lie together in order of time, and one bisection finds those before any event. A node's history is that
of the index, then settled, then fresh; a place in it is a number from 0 on, whichever part it falls into.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tpnet_dist.files.growing_array import GrowingArray
from tpnet_dist.keyed_random import SampleKey, fractions_of
from tpnet_dist.neighbors.index import Integers, NeighborIndex, Neighbors, ones

_ENTRY_BITS = 32
_MOST_FRESH = 8192
"""Entries; adding sorts them, and each merge copies all settled ones: with a million, both take a ms."""

Times = npt.NDArray[np.int64] | npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Range:
    """Where each query's entries lie in a sorted part, those before its bound."""

    begin_B: Integers
    size_B: Integers


class GrowingNeighbors:
    """The twin of `NeighborIndex` to which events can be added; nodes may be new."""

    def __init__(self, index: NeighborIndex, *, first_event: int, time_dtype: str) -> None:
        """`first_event`: the number of the first event that will be added."""
        self.index, self.first_event = index, first_event
        self._times = GrowingArray(time_dtype)
        self._partners = GrowingArray(np.int64)
        """By entry."""
        self._settled: Integers = np.empty(0, np.int64)
        self._fresh: Integers = np.empty(0, np.int64)

    def append(self, src_B: Integers, dst_B: Integers, time_B: Times) -> None:
        """Events in order of time, none before those there are."""
        first_entry = 2 * len(self._times)
        node_E = np.stack([src_B, dst_B], axis=1).ravel()
        entry_E = np.arange(first_entry, first_entry + len(node_E))
        assert first_entry + len(node_E) <= 1 << _ENTRY_BITS, "entries have 32 bits"
        self._times.append(time_B)
        self._partners.append(np.stack([dst_B, src_B], axis=1).ravel())
        self._fresh = _merged(self._fresh, (node_E << _ENTRY_BITS) | entry_E)
        if len(self._fresh) > _MOST_FRESH:
            self._settled, self._fresh = _merged(self._settled, self._fresh), self._fresh[:0]

    def recent(self, node_B: Tensor, before_event_B: Tensor, *, count: int) -> Neighbors:
        """The last `count` interactions of each node among the events below its bound."""
        history = _History.of(self, node_B, before_event_B)
        place_BM = history.size_B[:, None] + torch.arange(-count, 0)
        return self._read(history, place_BM, place_BM >= 0)

    def uniform(
        self, node_B: Tensor, before_event_B: Tensor, query_B: Tensor, *, count: int, key: SampleKey
    ) -> Neighbors:
        """`count` draws with replacement, in order of time: those one index of all events would make."""
        history = _History.of(self, node_B, before_event_B)
        size_B1 = history.size_B[:, None]
        place_BM = fractions_of(key, query_B, count).mul_(size_B1).to(torch.int64).sort(dim=1).values
        return self._read(history, place_BM, (size_B1 > 0).repeat(1, count))

    def _read(self, history: "_History", place_BM: Tensor, mask_BM: Tensor) -> Neighbors:
        in_index_BM = mask_BM & (place_BM < history.of_index_B[:, None])
        found = self.index.at(history.known_B, place_BM, in_index_BM)
        later_BM = (mask_BM & ~in_index_BM).numpy()
        if not later_BM.any():
            return found
        # which query, and which of its later entries
        row_A, _ = np.nonzero(later_BM)
        place_A = (place_BM - history.of_index_B[:, None]).numpy()[later_BM]
        entry_A = self._entries(history, row_A, place_A)
        found.ids_BM.numpy()[later_BM] = self._partners.values[entry_A]
        found.events_BM.numpy()[later_BM] = self.first_event + (entry_A >> 1)
        times_BM = found.times_BM.to(torch.from_numpy(self._times.values).dtype)
        times_BM.numpy()[later_BM] = self._times.values[entry_A >> 1]
        return Neighbors(found.ids_BM, found.events_BM, times_BM, mask_BM)

    def _entries(self, history: "_History", row_A: Integers, place_A: Integers) -> Integers:
        """The entries at places of the histories after the index."""
        settled, fresh = history.settled, history.fresh
        is_fresh_A = place_A >= settled.size_B[row_A]
        key_A = np.empty(len(row_A), np.int64)
        row, place = row_A[~is_fresh_A], place_A[~is_fresh_A]
        key_A[~is_fresh_A] = self._settled[settled.begin_B[row] + place]
        row, place = row_A[is_fresh_A], place_A[is_fresh_A]
        key_A[is_fresh_A] = self._fresh[fresh.begin_B[row] + place - settled.size_B[row]]
        return key_A & ones(_ENTRY_BITS)

    def ranges(self, node_B: Integers, before_event_B: Integers) -> tuple[_Range, _Range]:
        """Of settled and of fresh entries."""
        first_key_B = node_B << _ENTRY_BITS
        num_later_B = np.clip(before_event_B - self.first_event, 0, len(self._times))
        # entries are fewer than 2^32, but the bound may be just that
        last_key_B = first_key_B + 2 * num_later_B
        settled, fresh = (_range_of(part, first_key_B, last_key_B) for part in (self._settled, self._fresh))
        return settled, fresh


@dataclass(frozen=True)
class _History:
    """How long the history of each query's node is, and where its parts lie."""

    known_B: Tensor
    """The node, or any that the index has."""
    of_index_B: Tensor
    settled: _Range
    fresh: _Range
    size_B: Tensor

    @classmethod
    def of(cls, neighbors: GrowingNeighbors, node_B: Tensor, before_event_B: Tensor) -> "_History":
        index = neighbors.index
        is_known_B = node_B < index.stop_node
        known_B = node_B.where(is_known_B, torch.zeros_like(node_B))
        of_index_B = index.num_before(known_B, before_event_B) * is_known_B
        settled, fresh = neighbors.ranges(node_B.numpy(), before_event_B.numpy())
        later_B = torch.from_numpy(settled.size_B + fresh.size_B)
        return cls(known_B, of_index_B, settled, fresh, of_index_B + later_B)


def _range_of(keys: Integers, first_key_B: Integers, last_key_B: Integers) -> _Range:
    begin_B = keys.searchsorted(first_key_B)
    return _Range(begin_B, keys.searchsorted(last_key_B) - begin_B)


def _merged(some: Integers, others: Integers) -> Integers:
    """In order; what is sorted already is found as such."""
    return np.sort(np.concatenate([some, others]), kind="stable")
