"""A run of batches, planned: what is read and replayed where, and which rows are borrowed for it.

Planning touches no row, so it may be done ahead. Everything about a run that ranks tell one another is here
too: who asks whom for which layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from tpnet_dist.distributed.blocks import Blocks, check_nodes
from tpnet_dist.memory.borrowed_rows import BorrowedRows
from tpnet_dist.memory.closure import Closure, close
from tpnet_dist.memory.event_run import EventRun, Integers, partners
from tpnet_dist.memory.kernels import Ends
from tpnet_dist.memory.run_length import Fit

_FIELD_BITS = 8
_FIELD = (1 << _FIELD_BITS) - 1
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Asked:
    """Layers of rows that one rank asks of others, or others of it; by rank."""

    row_A: Integers
    """The places of rows on the side that holds this object: local ids of the owner, or slots of the
    borrower."""
    first_A: Integers
    """The lowest layer that is asked for."""
    count_A: Integers
    """The number of layers that are asked for."""
    is_late_A: Flags
    """Whether it changes in the run before, and so cannot travel while that is recorded."""
    border_R: Integers
    """Rank r's are border_R[r] … border_R[r + 1] - 1."""

    def packed(self, row_A: Integers) -> Integers:
        """Return one number for each, with other names for the rows."""
        row_and_late_A = row_A << 1 | self.is_late_A
        return ((row_and_late_A << _FIELD_BITS | self.first_A) << _FIELD_BITS) | self.count_A

    @classmethod
    def unpacked(cls, packed_A: Integers, counts: Sequence[int]) -> "Asked":
        first_A, count_A = packed_A >> _FIELD_BITS & _FIELD, packed_A & _FIELD
        row_and_late_A = packed_A >> 2 * _FIELD_BITS
        is_late_A = (row_and_late_A & 1).astype(np.bool_)
        return cls(row_and_late_A >> 1, first_A, count_A, is_late_A, np.cumsum([0, *counts]))

    def only(self, chosen_A: Flags) -> "Asked":
        """Return the chosen ones."""
        row_A, first_A, count_A = (column[chosen_A] for column in (self.row_A, self.first_A, self.count_A))
        border_R = np.append(0, np.cumsum(chosen_A))[self.border_R]
        return Asked(row_A, first_A, count_A, self.is_late_A[chosen_A], border_R)

    def early_and_late(self) -> tuple["Asked", "Asked"]:
        return self.only(~self.is_late_A), self.only(self.is_late_A)

    def layer_borders(self) -> Integers:
        """Return how many layers come before each rank's, and last the number of all."""
        return np.append(0, np.cumsum(self.count_A))[self.border_R]

    def layer_index(self, num_layers: int) -> Integers:
        """Return the layers one after another, as rows of a table with a row for each layer."""
        before_A = np.cumsum(self.count_A) - self.count_A
        index: Integers = np.repeat(self.row_A * num_layers + self.first_A - before_A, self.count_A)
        index += np.arange(len(index))
        return index


@dataclass(frozen=True)
class RunPlan:
    """One rank's part of a run."""

    ends: Ends
    nodes: list[Integers]
    """The distinct nodes whose rows are read before each batch, sorted."""
    places: list[Integers]
    """The places of these nodes' rows."""
    asked: Asked
    """The rows that this rank borrows, by slot."""
    owner_row_A: Integers
    """The local ids that the owners have for these rows."""
    num_needed: int
    """Rows of other ranks that this one works with."""
    fit: Fit
    """How these rows fit into the slots there may be, with those of runs not recorded yet."""
    is_early: bool
    """Whether a run before was not recorded yet."""
    num_slots: int
    """The number of slots for borrowed rows, of this run and those before."""
    closure: Closure

    num_events: int

    @property
    def num_batches(self) -> int:
        return len(self.nodes)

    def rows(self, batch: int) -> tuple[Integers, slice]:
        """Return the index, in the table it lies in, of each row that is read before a batch, and where own
        rows are among them: together, since nodes are sorted and blocks contiguous."""
        place_U = self.places[batch]
        own = np.flatnonzero(place_U >= 0)
        together = slice(int(own[0]), int(own[-1]) + 1) if len(own) else slice(0, 0)
        return np.where(place_U >= 0, place_U, -1 - place_U), together


def plan_run(
    run: EventRun,
    nodes: list[Integers],
    *,
    blocks: Blocks,
    rank: int,
    borrowed: BorrowedRows,
    hops: int,
    timescales: int = 1,
    open_runs: Sequence[RunPlan] = (),
) -> RunPlan:
    """Plan a run; settle which copies have a slot, and what of them will be right afterwards.

    `timescales`: how many layers rows have for each hop. `open_runs`: those before this one that are not
    recorded yet; rows for this one set out when only the last is left.
    """
    own = range(*blocks.range_of(rank))
    closure = close(run, nodes, own, hops)
    slot_U, held_U = borrowed.admit(closure, len(open_runs))
    # 1. what is replayed
    place_E = _places(run.node_E, closure.other_E, slot_U, own.start)
    if not len(slot_U):
        # all nodes are this rank's own, and so is every end
        ends = Ends(place_E, partners(place_E), closure.hops_E, run.time_E, run.border)
    else:
        replayed = np.flatnonzero(closure.hops_E)
        ends = Ends(
            place_E[replayed],
            place_E[replayed ^ 1],
            closure.hops_E[replayed],
            run.time_E[replayed],
            np.searchsorted(replayed, run.border),
        )
    # 2. what is read
    node_A = np.concatenate([*nodes, np.empty(0, np.int64)])
    place_A = _places(node_A, closure.other_A, slot_U, own.start)
    # 3. what is borrowed: of the layers that are needed, those that are not here or not right
    asked_A = np.flatnonzero(closure.need_U >= held_U)
    owner_A = closure.node_U[asked_A] // blocks.rows_per_rank
    order_A = np.argsort(owner_A, kind="stable")
    asked_A, owner_A = asked_A[order_A], owner_A[order_A]
    first_A = _layers_of(held_U[asked_A], timescales)
    asked = Asked(
        slot_U[asked_A],
        first_A,
        _layers_of(closure.need_U[asked_A] + 1, timescales) - first_A,
        _are_late(closure.node_U[asked_A], closure.need_U[asked_A], open_runs),
        np.searchsorted(owner_A, np.arange(blocks.num_ranks + 1)),
    )
    owners_first = np.array(blocks.borders[:-1])
    return RunPlan(
        ends=ends,
        nodes=nodes,
        places=np.split(place_A, np.cumsum([len(each) for each in nodes])[:-1]),
        asked=asked,
        owner_row_A=closure.node_U[asked_A] - owners_first[owner_A],
        num_needed=int((closure.need_U >= 0).sum()),
        fit=borrowed.fit(),
        is_early=bool(open_runs),
        num_slots=borrowed.num_slots,
        closure=closure,
        num_events=run.num_events,
    )


def distinct_nodes(wanted: Tensor | None, num_nodes: int) -> Integers:
    """Return the distinct nodes, sorted; refuse ids that own no row."""
    if wanted is None:
        return np.empty(0, np.int64)
    nodes: Integers = np.unique(wanted.cpu().numpy())
    if len(nodes) and not 0 <= nodes[0] <= nodes[-1] < num_nodes:
        check_nodes(wanted, num_nodes, "needed node {row}: id")
    return nodes


def _layers_of(levels_A: npt.NDArray[np.int8], timescales: int) -> Integers:
    """Return how many layers of a row make up so many levels: layer 0, then for each hop one of every
    timescale."""
    levels = levels_A.astype(np.int64)
    return np.where(levels > 0, 1 + (levels - 1) * timescales, 0)


def _are_late(nodes_A: Integers, need_A: npt.NDArray[np.int8], open_runs: Sequence[RunPlan]) -> Flags:
    """Return which of them the run before changes; layer 0 never changes, and by itself needs no clock."""
    if not open_runs:
        return np.zeros(len(nodes_A), np.bool_)
    return open_runs[-1].closure.changes(nodes_A) & (need_A > 0)


def _places(nodes: Integers, others: Integers, slot_U: Integers, first_own: int) -> Integers:
    """Return the places of nodes' rows: own ones by their local ids, borrowed ones below zero."""
    if not len(slot_U):
        return nodes - first_own
    return np.where(others < 0, nodes - first_own, -1 - slot_U[others])
