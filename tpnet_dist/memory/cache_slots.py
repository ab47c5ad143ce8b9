"""Which remote rows a rank holds, and in which slots of its cache: decided while batches are planned.

A row changes only when its node is recorded, and every rank knows every batch's events. So whether a copy is
still right follows from the plans alone: nobody is asked, nothing is stale. Seen from rank 0 of two, nodes
0 1 | 2 3, where each batch wants rows 2 and 3:

    event (0, 2)    asks for 2 and 3, keeps 3: row 2 is about to change
    event (0, 1)    asks for 2, keeps it; holds 3
    event (1, 3)    holds 2 and 3; row 3 changes, its slot is free

Rows go to free slots. Where there are too few, those used longest ago are dropped, many at once, so that
looking for them costs little per row; rows of the present batch stay.

Shape letters: N all nodes, S slots, U fetched rows of a run of batches, V nodes that a batch records, H held
rows, K kept ones, G batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tpnet_dist.memory.plan import Bools, Integers

Slots = npt.NDArray[np.int32]

_ABSENT = -1
_UNKEPT = -2
"""Of nodes whose rows are not to be kept: own ones, always; others while a batch records them."""
_FREE = np.iinfo(np.int64).max
"""As the last use of a slot: later than any, so that only full slots are emptied."""
_SHARE_DROPPED = 16


@dataclass(frozen=True)
class SlotRun:
    """Where the rows of a run of batches come from, and which of them stay."""

    is_held_U: Bools
    """Of the rows that are fetched, batch after batch."""
    slot_H: Integers
    """Where the held ones lie."""
    row_K: Integers
    """Which rows are kept once they have arrived."""
    slot_K: Integers
    """And where."""
    kept_G: list[int]
    """How many of them in each batch."""


class CacheSlots:
    """What the cache will hold when everything planned so far is fetched and recorded."""

    def __init__(self, num_nodes: int, capacity: int, own: slice) -> None:
        # config
        self.capacity, self._own = capacity, own
        # progress
        self._slot_N: Slots = np.empty(num_nodes, np.int32)
        self._node_S: npt.NDArray[np.int32] = np.empty(capacity, np.int32)
        self._used_S: Integers = np.empty(capacity, np.int64)
        """Number of the batch that used it last."""
        self._free_S: Slots = np.empty(capacity, np.int32)
        """A stack."""
        self._num_free = 0
        self._now = 0
        self.clear()

    def clear(self) -> None:
        """Hold nothing."""
        self._slot_N.fill(_ABSENT)
        self._slot_N[self._own] = _UNKEPT
        self._used_S.fill(_FREE)
        self._free_S[:] = np.arange(self.capacity)[::-1]
        self._num_free, self._now = self.capacity, 0

    @property
    def num_held(self) -> int:
        """How many rows there will be."""
        return self.capacity - self._num_free

    def plan_run(self, nodes: Sequence[Integers], recorded: Sequence[Integers]) -> SlotRun:
        """By batch: the nodes whose rows are fetched, and the remote ones that are recorded after that."""
        steps = [self._plan_batch(*columns) for columns in zip(nodes, recorded, strict=True)]
        slot_U = np.concatenate([slots for slots, _, _ in steps])
        is_held_U = slot_U >= 0
        first_rows = np.cumsum([0, *map(len, nodes[:-1])]).tolist()
        row_K = [rows + first for (_, rows, _), first in zip(steps, first_rows, strict=True)]
        return SlotRun(
            is_held_U=is_held_U,
            slot_H=slot_U[is_held_U].astype(np.int64),
            row_K=np.concatenate(row_K),
            slot_K=np.concatenate([slots for _, _, slots in steps]).astype(np.int64),
            kept_G=[len(slots) for _, _, slots in steps],
        )

    def drop(self, node_V: Integers, mark: int = _ABSENT) -> None:
        """Rows of remote nodes that change."""
        slot_V = self._slot_N[node_V]
        self._free(slot_V[slot_V >= 0])
        self._slot_N[node_V] = mark

    def _plan_batch(self, node_U: Integers, node_V: Integers) -> tuple[Slots, Integers, Slots]:
        """The slot of each row, or less than 0; which rows are kept, and in which slots.

        Held rows are read before arrived ones are written, so slots of rows that change are free at once.
        """
        self._now += 1
        slot_U = self._slot_N[node_U]
        self._used_S[slot_U[slot_U >= 0]] = self._now
        self.drop(node_V, mark=_UNKEPT)
        row_K = np.flatnonzero(self._slot_N[node_U] == _ABSENT)
        slot_K = self._take(len(row_K))
        row_K = row_K[: len(slot_K)]
        node_K = node_U[row_K]
        self._slot_N[node_K], self._node_S[slot_K], self._used_S[slot_K] = slot_K, node_K, self._now
        self._slot_N[node_V] = _ABSENT
        return slot_U, row_K, slot_K

    def _take(self, count: int) -> Slots:
        """So many free slots, or as many as can be made."""
        if count > self._num_free:
            self._drop_unused(max(count - self._num_free, self.capacity // _SHARE_DROPPED))
        rest = max(self._num_free - count, 0)
        taken = self._free_S[rest : self._num_free][::-1].copy()
        self._num_free = rest
        return taken

    def _drop_unused(self, count: int) -> None:
        """At most so many rows, those used longest ago, none of the present batch."""
        count = min(count, self.capacity)
        last_used: Slots = np.argpartition(self._used_S, count - 1)[:count].astype(np.int32)
        oldest = last_used[self._used_S[last_used] < self._now]
        self._slot_N[self._node_S[oldest]] = _ABSENT
        self._free(oldest)

    def _free(self, slots: Slots) -> None:
        self._used_S[slots] = _FREE
        self._free_S[self._num_free : self._num_free + len(slots)] = slots
        self._num_free += len(slots)
