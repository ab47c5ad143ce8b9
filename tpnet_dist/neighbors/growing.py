"""Who met whom, and when, in the log and in events that came after it: neighbour look-ups that grow.

    index     the log's events, packed and never changed (neighbors.py)
    settled   later entries: sorted numbers, node · 2^32 + number of the entry
    fresh     the latest entries, likewise; few, so that adding some is cheap, and now and then merged

Event e of the later ones gives entries 2e, of its source, and 2e + 1, of its destination. So the entries of a
node lie together in order of time, and one bisection finds those before any event. A node's history is that
of the index, then settled, then fresh; a place in it is a number from 0 on, whichever part it falls into.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tpnet_dist.files.growing_array import GrowingArray
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.neighbors.index import (
    Integers,
    NeighborIndex,
    NeighborLookup,
    Neighbors,
    largest_of_groups,
    ones,
)
from tpnet_dist.neighbors.interval_weights import Floats, IntervalWeights, RunningSums, weigh
from tpnet_dist.neighbors.samplers import Queries, Sampler, Slots

_ENTRY_BITS = 32
_MOST_FRESH = 8192
"""Entries; adding sorts them, and each merge copies all settled ones: with a million, both take a ms."""

Times = npt.NDArray[np.int64] | npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Range:
    """The places of each query's entries in a sorted part, those before its bound."""

    begin_B: Integers
    size_B: Integers


class GrowingNeighbors(NeighborLookup):
    """The twin of `NeighborIndex` to which events can be added; nodes may be new."""

    def __init__(self, index: NeighborIndex, *, first_event: int, time_dtype: str) -> None:
        """`first_event`: the number of the first event that will be added."""
        self.index, self.first_event = index, first_event
        self._times = GrowingArray(time_dtype)
        self._partners = GrowingArray(np.int64)
        """The other node of each entry."""
        self._settled: Integers = np.empty(0, np.int64)
        self._fresh: Integers = np.empty(0, np.int64)
        # by entry, where the index has weights
        self._sums, self._weights_until = GrowingArray(np.float64), GrowingArray(np.float64)

    def append(self, src_B: Integers, dst_B: Integers, time_B: Times) -> None:
        """Add events in order of time, none before those there are."""
        first_entry = 2 * len(self._times)
        node_E = np.stack([src_B, dst_B], axis=1).ravel()
        entry_E = np.arange(first_entry, first_entry + len(node_E))
        assert first_entry + len(node_E) <= 1 << _ENTRY_BITS, "entries have 32 bits"
        if self.index.weights is not None:
            self._weigh(self.index.weights, node_E, time_B.repeat(2).astype(np.float64))
        self._times.append(time_B)
        self._partners.append(np.stack([dst_B, src_B], axis=1).ravel())
        self._fresh = _merged(self._fresh, (node_E << _ENTRY_BITS) | entry_E)
        if len(self._fresh) > _MOST_FRESH:
            self._settled, self._fresh = _merged(self._settled, self._fresh), self._fresh[:0]

    def sample(self, queries: Queries, sampler: Sampler, *, count: int, key: SampleKey) -> Neighbors:
        history = _History.of(self, queries)
        place_BM = sampler(history, Slots(count, key, queries))
        return self._read(history, place_BM, place_BM >= 0)

    def longest(self, queries: Queries, group_B: Tensor, num_groups: int) -> Tensor:
        return largest_of_groups(_History.of(self, queries).sizes(), group_B, num_groups)

    def longest_of_all(self) -> int:
        """How many interactions the node with most has."""
        node_U = np.unique(np.concatenate([self._settled, self._fresh]) >> _ENTRY_BITS)
        later = _History.of(self, Queries(torch.from_numpy(node_U), torch.full((len(node_U),), 2**62)))
        return max(self.index.max_degree, later.max_size())

    def num_interactions(self, node_B: Integers, before_event: int) -> Integers:
        """How many interactions each node has had before an event."""
        bound_B = torch.full((len(node_B),), before_event)
        sizes: Integers = _History.of(self, Queries(torch.from_numpy(node_B), bound_B)).sizes().numpy()
        return sizes

    def weight_until(self, history: "_History", place_BM: Tensor) -> Tensor:
        """Return the weights of each history's interactions up to and with that place, added up."""
        until_BM = self.index.weight_until(history.begin_B[:, None] + 1 + place_BM)
        later_BM = (place_BM >= history.of_index_B[:, None]) & (place_BM < history.sizes()[:, None])
        row_A, _ = np.nonzero(later_BM.numpy())
        place_A = (place_BM - history.of_index_B[:, None]).numpy()[later_BM.numpy()]
        until_BM.numpy()[later_BM.numpy()] = self._weights_until.values[
            self._entries(history, row_A, place_A)
        ]
        return until_BM

    def _weigh(self, weights: IntervalWeights, node_E: Integers, time_E: Floats) -> None:
        order_E = np.argsort(node_E, kind="stable")
        node_U, first_U = np.unique(node_E[order_E], return_index=True)
        starts = np.append(first_U, len(node_E))
        weighed = weigh(starts, time_E[order_E], weights.scaling, self._running_sums(weights, node_U))
        for column, values in zip((self._sums, self._weights_until), weighed, strict=True):
            by_entry = np.empty_like(values)
            by_entry[order_E] = values
            column.append(by_entry)

    def _running_sums(self, weights: IntervalWeights, node_U: Integers) -> RunningSums:
        """Return where the histories of these nodes stand."""
        history = _History.of(self, Queries(torch.from_numpy(node_U), torch.full((len(node_U),), 2**62)))
        known_B, last_B = history.known_B, history.begin_B + history.of_index_B
        has_any_B = (history.of_index_B > 0).numpy()
        sums = RunningSums(
            weights.sum_N[known_B - self.index.first_node].numpy() * has_any_B,
            weights.until[last_B].numpy() * has_any_B,
            self.index.times_at(last_B).double().numpy() * has_any_B,
        )
        num_later_B = history.num_later()
        [row_A] = np.nonzero(num_later_B)
        if len(row_A):
            entry_A = self._entries(history, row_A, num_later_B[row_A] - 1)
            sums.sum_N[row_A] = self._sums.values[entry_A]
            sums.until_N[row_A] = self._weights_until.values[entry_A]
            sums.time_N[row_A] = self._times.values[entry_A >> 1]
        return sums

    def num_events_before(self, queries: Queries) -> Integers:
        """Return how many of the later events come before each query's bound."""
        bound_B = queries.before_B.numpy()
        if queries.by_time:
            earlier_B: Integers = np.searchsorted(self._times.values, bound_B)
            return earlier_B
        clipped_B: Integers = np.clip(bound_B - self.first_event, 0, len(self._times))
        return clipped_B

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
        """Return the entries at places of the histories after the index."""
        settled, fresh = history.settled, history.fresh
        is_fresh_A = place_A >= settled.size_B[row_A]
        key_A = np.empty(len(row_A), np.int64)
        row, place = row_A[~is_fresh_A], place_A[~is_fresh_A]
        key_A[~is_fresh_A] = self._settled[settled.begin_B[row] + place]
        row, place = row_A[is_fresh_A], place_A[is_fresh_A]
        key_A[is_fresh_A] = self._fresh[fresh.begin_B[row] + place - settled.size_B[row]]
        return key_A & ones(_ENTRY_BITS)

    def ranges(self, queries: Queries) -> tuple[_Range, _Range]:
        """Return the ranges of settled and of fresh entries."""
        first_key_B = queries.node_B.numpy() << _ENTRY_BITS
        # entries are fewer than 2^32, but the bound may be just that
        last_key_B = first_key_B + 2 * self.num_events_before(queries)
        settled, fresh = (_range_of(part, first_key_B, last_key_B) for part in (self._settled, self._fresh))
        return settled, fresh


@dataclass(frozen=True)
class _History:
    """The length of each query's history, and where its parts lie."""

    neighbors: GrowingNeighbors
    known_B: Tensor
    """The node, or any that the index has."""
    begin_B: Tensor
    of_index_B: Tensor
    settled: _Range
    fresh: _Range

    @classmethod
    def of(cls, neighbors: GrowingNeighbors, queries: Queries) -> "_History":
        index, node_B = neighbors.index, queries.node_B
        is_known_B = node_B < index.stop_node
        known_B = node_B.where(is_known_B, torch.zeros_like(node_B))
        begin_B, size_B = index.history(replace(queries, node_B=known_B))
        return cls(neighbors, known_B, begin_B, size_B * is_known_B, *neighbors.ranges(queries))

    def num_later(self) -> Integers:
        return self.settled.size_B + self.fresh.size_B

    def sizes(self) -> Tensor:
        return self.of_index_B + torch.from_numpy(self.num_later())

    def max_size(self) -> int:
        return int(self.sizes().max()) if len(self.known_B) else 0

    def weight_until(self, place_BM: Tensor) -> Tensor:
        return self.neighbors.weight_until(self, place_BM)


def _range_of(keys: Integers, first_key_B: Integers, last_key_B: Integers) -> _Range:
    begin_B = keys.searchsorted(first_key_B)
    return _Range(begin_B, keys.searchsorted(last_key_B) - begin_B)


def _merged(some: Integers, others: Integers) -> Integers:
    """Merge two sorted arrays into one; a stable sort takes advantage of what is sorted already."""
    return np.sort(np.concatenate([some, others]), kind="stable")
