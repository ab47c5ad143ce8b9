"""Temporal walk matrices kept as they are, sparse: what the projections stand in for, and PINT's way.

A^(l) has a row for each node: how many walks of l events lead from it to every other node, each event
weighted by how long ago it was. With an average degree of d a row of A^(l) holds up to d^l numbers, which
is why nobody can keep them for large graphs.
"""

import numpy as np
import numpy.typing as npt
from scipy import sparse

Ids = npt.NDArray[np.int32]
Weights = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]
Row = tuple[Ids, Weights]

_EMPTY: Row = (np.empty(0, np.int32), np.empty(0, np.float32))


class StoredWalks:
    """A^(1) … A^(hops), row by row, each row as of its node's last event."""

    def __init__(self, num_nodes: int, hops: int, decay: float) -> None:
        self.num_nodes, self.hops, self.decay = num_nodes, hops, decay
        self._rows: list[list[Row]] = [[_EMPTY] * num_nodes for _ in range(hops)]
        self._clock_N = np.zeros(num_nodes)

    def record(self, src_B: Ids, dst_B: Ids, time_B: Floats) -> None:
        """Add one batch of events, in order of time, all of which see the state before it."""
        node_E, other_E = np.concatenate([src_B, dst_B]), np.concatenate([dst_B, src_B])
        node_U, place_E = np.unique(node_E, return_inverse=True)
        end = float(time_B[-1])
        weight_E = np.exp(-self.decay * (end - np.tile(time_B, 2))).astype(np.float32)
        at = (place_E, np.searchsorted(node_U, other_E))
        # ends that meet several times add up
        messages_UU = sparse.csr_matrix((weight_E, at), shape=(len(node_U), len(node_U)))
        for hop in range(self.hops, 0, -1):
            new_UN = self.read(node_U, hop, end) + messages_UU @ self.read(node_U, hop - 1, end)
            borders = new_UN.indptr.tolist()
            for place, node in enumerate(node_U.tolist()):
                here = slice(borders[place], borders[place + 1])
                # copies: a view would keep the whole batch's rows
                self._rows[hop - 1][node] = new_UN.indices[here].copy(), new_UN.data[here].copy()
        self._clock_N[node_U] = end

    def read(self, node_U: npt.NDArray[np.integer], hop: int, time: float) -> sparse.csr_matrix:
        """Return the nodes' rows of A^(hop) at `time`: (U, N)."""
        shape = (len(node_U), self.num_nodes)
        if hop == 0:
            return sparse.csr_matrix(
                (np.ones(len(node_U), np.float32), node_U, np.arange(len(node_U) + 1)), shape=shape
            )
        rows = [self._rows[hop - 1][node] for node in node_U.tolist()]
        size_U = np.array([len(ids) for ids, _ in rows])
        factor_U = np.exp(-self.decay * hop * (time - self._clock_N[node_U])).astype(np.float32)
        weights = np.concatenate([weights for _, weights in rows]) * factor_U.repeat(size_U)
        ids = np.concatenate([ids for ids, _ in rows])
        return sparse.csr_matrix((weights, ids, np.append(0, size_U.cumsum())), shape=shape)
