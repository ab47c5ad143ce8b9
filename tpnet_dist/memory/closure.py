"""What a rank must borrow, and replay of others' rows, so that ranks meet once for a run of batches.

A rank wants all layers of its own rows at the end of the run, and of the rows that its slices read, before
their batches. Layer l of a row that an event of the run changes takes layer l − 1 of the partner's row as it
was before that batch. So what is wanted is followed back, layer by layer; it ends after k steps, since layer
0 never changes.

    run of two batches (0,2) | (2,3), one hop, nodes 0 1 on rank 0 and 2 3 on rank 1; nobody reads
    rank 0   changes row 0 in batch 0, by a message of 2: borrows layer 0 of 2
    rank 1   changes row 2 in batch 0, by a message of 0: borrows layer 0 of 0; then 2 and 3, both its own

With two hops rank 0 borrows layers 0 and 1 of row 2 as they were before the run. If its slice of batch 1
reads row 2, it borrows all of it and replays (0,2) on the copy first.

A row that is wanted with layer l is wanted with the layers below it, at least as long. So wants are counted:
so many hops.

U counts distinct nodes of other ranks here, and k is the number of hops.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tpnet_dist.memory.event_run import EventRun, Integers
from tpnet_dist.memory.hash_index import find_in_index, new_index, number_of
from tpnet_dist.memory.numba_tools import compiled


class Closure(NamedTuple):
    """What one rank wants for a run."""

    node_U: Integers
    """Nodes of other ranks that the run reads or has events of, in the order they come."""
    need_U: npt.NDArray[np.int8]
    """Layers of up to so many hops must be there when the run begins; -1: none."""
    right_U: npt.NDArray[np.int8]
    """The number of hops whose layers are right at the end of the run, if they were there at its
    beginning."""
    other_E: Integers
    """The number, among these nodes, of an end's node; -1: this rank's own."""
    hops_E: npt.NDArray[np.int8]
    """Layers of up to so many hops of the end's node are changed by it here; 0: none."""
    other_A: Integers
    """The number, among these nodes, of a node that is read; -1: this rank's own."""
    changes_U: npt.NDArray[np.bool_]
    """Whether each of these nodes has events in the run."""
    cells: npt.NDArray[np.int32]
    """The hash index that finds a node among these."""

    def changes(self, nodes: Integers) -> npt.NDArray[np.bool_]:
        """Return which of these nodes, all of other ranks, have events in the run."""
        number = np.empty_like(nodes)
        find_in_index(nodes, self.cells, self.node_U, number)
        changes: npt.NDArray[np.bool_] = np.append(self.changes_U, False)[number]
        return changes


def close(run: EventRun, reads: list[Integers], own: range, hops: int) -> Closure:
    """Find what a rank must borrow. `reads`: for each batch the nodes whose rows this rank wants before
    it."""
    node_A = np.concatenate([*reads, np.empty(0, np.int64)])
    read_border = np.cumsum([0, *map(len, reads)])
    other_E, other_A = np.full(len(run.node_E), -1), np.full(len(node_A), -1)
    hops_E = np.full(len(run.node_E), hops, np.int8)
    # counted from the first own node on; as unsigned numbers, those before it are beyond the last
    size = sum(int(((nodes - own.start).view(np.uint64) >= len(own)).sum()) for nodes in (run.node_E, node_A))
    node_U, need_U, right_U = np.empty(size, np.int64), np.full(size, -1, np.int8), np.zeros(size, np.int8)
    index = new_index(size)
    if not size:
        # all is this rank's own: all of it is replayed here
        return Closure(node_U, need_U, right_U, other_E, hops_E, other_A, node_U > 0, index)
    count = _number_others(run.node_E, own.start, own.stop, index, node_U, other_E, 0)
    count = _number_others(node_A, own.start, own.stop, index, node_U, other_A, count)
    until_Uk, last_U = np.zeros((count, hops + 1), np.int64), np.full(count, -1)
    _want_reads(other_A, read_border, hops, need_U, until_Uk)
    _follow_back(run.border, other_E, hops, hops_E, need_U, until_Uk, last_U)
    # what stays right: layers that were replayed to the node's last event
    right_U[:count] = (until_Uk[:, 1:] > last_U[:, None]).sum(1)
    return Closure(
        *(node_U[:count], need_U[:count], right_U[:count], other_E, hops_E, other_A, last_U >= 0, index)
    )


@compiled
def _number_others(nodes, first_own, stop_own, index, node_U, others, count):
    """Number the nodes of other ranks in the order they come."""
    for i in range(len(nodes)):
        if nodes[i] < first_own or nodes[i] >= stop_own:
            others[i] = number_of(nodes[i], index, node_U, count)
            count += others[i] == count
    return count


@compiled
def _want_reads(other_A, read_border, hops, need_U, until_Uk):
    """Find the layers that are wanted: those of h hops of node u with all batches before until_Uk[u, h]."""
    for batch in range(len(read_border) - 1):
        for i in range(read_border[batch], read_border[batch + 1]):
            if other_A[i] >= 0:
                need_U[other_A[i]] = hops
                for hop in range(1, hops + 1):
                    until_Uk[other_A[i], hop] = batch


@compiled
def _follow_back(border, other_E, hops, hops_E, need_U, until_Uk, last_U):
    for e in range(len(hops_E)):
        hops_E[e] = 0
    for hop in range(hops, 0, -1):
        for batch in range(len(border) - 1):
            for e in range(border[batch], border[batch + 1]):
                other, sender = other_E[e], other_E[e ^ 1]
                if other >= 0:
                    last_U[other] = batch
                    if batch >= until_Uk[other, hop]:
                        continue
                hops_E[e] = max(hops_E[e], hop)
                if sender >= 0:
                    need_U[sender] = max(need_U[sender], hop - 1)
                    until_Uk[sender, hop - 1] = max(until_Uk[sender, hop - 1], batch)
