"""Copies of other ranks' rows: which are here, in which slots, and how many of their layers are right.

A copy stays right where every event of its node is replayed on it; `Closure.right_U` says how far. Layer 0
never changes, so it is right for as long as the copy has a slot. All this is settled when a run is planned;
the rows follow when it is carried out.
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tpnet_dist.memory.closure import Closure
from tpnet_dist.memory.event_run import Integers
from tpnet_dist.memory.hash_index import add_to_index, find_in_index, new_index
from tpnet_dist.memory.kernels import Clocks, keep_until_used
from tpnet_dist.memory.run_length import Fit

_SHARE_EVICTED = 8
"""At least one slot in this many is freed at a time, since the table of slots is then made anew."""


class BorrowedRows:
    """Slots for `capacity` copies, or as many as runs need that are not recorded yet."""

    def __init__(self, capacity: int, num_remote: int, like_NLD: Tensor, clocks: Clocks) -> None:
        """`num_remote`: the number of rows that other ranks own; `clocks`: of own rows, to which those of the
        slots are added."""
        self.capacity, self.holds_all, self.clocks = min(capacity, num_remote), capacity >= num_remote, clocks
        self.rows_VLD = like_NLD.new_empty(0, *like_NLD.shape[1:])
        self.clear()

    def clear(self) -> None:
        """Forget all copies."""
        self._run = self._in_use_since = 1
        self._node_V: Integers = np.full(len(self.rows_VLD), -1)
        self._held_V = np.zeros(len(self.rows_VLD), np.int8)
        self._used_V = np.zeros(len(self.rows_VLD), np.int64)
        self._index_slots()

    def forget_events(self) -> None:
        """Take layer 0 alone to be right, of all copies."""
        np.minimum(self._held_V, 1, out=self._held_V)

    @property
    def num_slots(self) -> int:
        """Return how many slots the runs planned so far take; those of runs carried out have room."""
        return len(self._node_V)

    def make_room(self, num_slots: int) -> None:
        """Grow the buffers so that they hold the rows of a run that is about to come."""
        old_VLD = self.rows_VLD
        if (more := num_slots - len(old_VLD)) <= 0:
            return
        # whoever needs it may be scoring: what is made in inference mode cannot be changed outside it
        with torch.inference_mode(False):
            self.rows_VLD = old_VLD.new_empty(num_slots, *old_VLD.shape[1:])
            self.rows_VLD[: len(old_VLD)] = old_VLD
            keep_until_used(old_VLD)
            self.clocks.make_room(len(self.clocks.time_V) - len(old_VLD), more)

    def fit(self) -> Fit:
        """Return whether the rows in use fit into the slots there may be."""
        in_use = int((self._used_V >= self._in_use_since).sum())
        if self.holds_all or 2 * in_use <= self.capacity:
            return Fit.TWICE
        return Fit.ONCE if in_use <= self.capacity else Fit.NOT

    @property
    def num_held(self) -> int:
        return int((self._node_V >= 0).sum())

    def admit(self, closure: Closure, num_open: int) -> tuple[Integers, npt.NDArray[np.int8]]:
        """Give a slot to every node that the run needs; how many hops of layers each has there already, plus
        one for layer 0. Nodes that the run does not need may have none: -1. `num_open`: so many runs
        before are not recorded yet, so what they need stays too."""
        self._run += 1
        self._in_use_since = self._run - num_open
        slot_U = np.empty(len(closure.node_U), np.int64)
        find_in_index(closure.node_U, self._index, self._node_V, slot_U)
        is_needed_U = closure.need_U >= 0
        self._used_V[slot_U[is_needed_U & (slot_U >= 0)]] = self._run
        is_new_U = is_needed_U & (slot_U < 0)
        slot_U[is_new_U] = self._take_slots(closure.node_U[is_new_U])
        # nodes that the run does not need may just have lost theirs
        has_slot_U = slot_U >= 0
        has_slot_U[has_slot_U] = self._node_V[slot_U[has_slot_U]] == closure.node_U[has_slot_U]
        held_U = np.zeros_like(closure.need_U)
        held_U[has_slot_U] = self._held_V[slot_U[has_slot_U]]
        after_U = np.minimum(closure.right_U + 1, np.maximum(held_U, closure.need_U + 1))
        self._held_V[slot_U[has_slot_U]] = after_U[has_slot_U]
        return slot_U, held_U

    def _take_slots(self, node_U: Integers) -> Integers:
        free = np.flatnonzero(self._node_V < 0) if len(node_U) else np.empty(0, np.int64)
        if len(free) < len(node_U):
            free = self._make_room(len(node_U), free)
        taken: Integers = free[: len(node_U)]
        self._node_V[taken], self._held_V[taken], self._used_V[taken] = node_U, 0, self._run
        add_to_index(taken, self._index, self._node_V)
        return taken

    def _make_room(self, count: int, free: Integers) -> Integers:
        """Return slots of rows that were not needed for longest, or new ones."""
        size, missing = len(self._node_V), count - len(free)
        if size < self.capacity:
            self._grow(min(self.capacity, max(size + missing, 2 * size)))
        free = np.flatnonzero(self._node_V < 0)
        if (missing := count - len(free)) > 0:
            idle = np.flatnonzero((self._used_V < self._in_use_since) & (self._node_V >= 0))
            evicted = idle[np.argsort(self._used_V[idle], kind="stable")]
            evicted = evicted[: max(missing, len(self._node_V) // _SHARE_EVICTED)]
            self._node_V[evicted] = -1
            if len(evicted) < missing:
                # more are needed than the capacity
                self._grow(len(self._node_V) + missing - len(evicted))
            self._index_slots()
            free = np.flatnonzero(self._node_V < 0)
        return free

    def _grow(self, size: int) -> None:
        more = size - len(self._node_V)
        self._node_V = np.append(self._node_V, np.full(more, -1))
        self._held_V = np.append(self._held_V, np.zeros(more, np.int8))
        self._used_V = np.append(self._used_V, np.zeros(more, np.int64))
        self._index_slots()

    def _index_slots(self) -> None:
        self._index = new_index(len(self._node_V))
        add_to_index(np.flatnonzero(self._node_V >= 0), self._index, self._node_V)
