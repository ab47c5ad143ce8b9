"""Which directed edges some events hold at which times.

Shape letters: N events.
"""

from itertools import chain

import numpy as np

from tpnet_dist.events.batch_plan import Positions
from tpnet_dist.events.edge_history import EdgeKeys, edge_keys
from tpnet_dist.events.view import EventView


class MomentEdges:
    """The edges of N events by their moments; a moment is the number of the log's first event at that time.

    It holds 16 bytes per event.
    """

    def __init__(self, moment_N: Positions, key_N: EdgeKeys) -> None:
        if (moment_N[1:] < moment_N[:-1]).any():
            raise ValueError("moments of events must not fall; give the parts of a log in order")
        self._moment_N, self._key_N = moment_N, key_N

    @classmethod
    def of(cls, *views: EventView) -> "MomentEdges":
        """Of one or several parts of a log, in order."""
        size, num_nodes = sum(len(view) for view in views), views[0].log.num_nodes
        moment_N, key_N = np.empty((2, size), dtype=np.int64)
        start = 0
        for chunk in chain.from_iterable(view.stream() for view in views):
            rows = slice(start, start + len(chunk))
            moment_N[rows] = chunk.moment
            key_N[rows] = edge_keys(chunk.columns.src, chunk.columns.dst, num_nodes)
            start += len(chunk)
        return cls(moment_N, key_N)

    def during(self, first: int, last: int) -> EdgeKeys:
        """Keys of the distinct edges from moment `first` to moment `last`, sorted."""
        start = np.searchsorted(self._moment_N, first, side="left")
        stop = np.searchsorted(self._moment_N, last, side="right")
        return np.unique(self._key_N[start:stop])
