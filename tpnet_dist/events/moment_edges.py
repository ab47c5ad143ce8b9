"""Which directed edges some events hold at which times."""

from itertools import chain

import numpy as np

from tpnet_dist.events.batch_plan import Positions
from tpnet_dist.events.edge_history import EdgeKeys, edge_keys
from tpnet_dist.events.view import EventView


class MomentEdges:
    """The edges of B events by their moments; a moment is the number of the log's first event at that time.

    It holds 16 bytes per event.
    """

    def __init__(self, moment_B: Positions, key_B: EdgeKeys) -> None:
        if (moment_B[1:] < moment_B[:-1]).any():
            raise ValueError("moments of events must not fall; give the parts of a log in order")
        self._moment_B, self._key_B = moment_B, key_B

    @classmethod
    def of(cls, *views: EventView) -> "MomentEdges":
        """Collect the edges of one or several parts of a log, in order."""
        size, num_nodes = sum(len(view) for view in views), views[0].log.num_nodes
        moment_B, key_B = np.empty((2, size), dtype=np.int64)
        start = 0
        for chunk in chain.from_iterable(view.stream() for view in views):
            rows = slice(start, start + len(chunk))
            moment_B[rows] = chunk.moment
            key_B[rows] = edge_keys(chunk.columns.src, chunk.columns.dst, num_nodes)
            start += len(chunk)
        return cls(moment_B, key_B)

    def during(self, first: int, last: int) -> EdgeKeys:
        """Return the keys of the distinct edges from moment `first` to moment `last`, sorted."""
        start = np.searchsorted(self._moment_B, first, side="left")
        stop = np.searchsorted(self._moment_B, last, side="right")
        return np.unique(self._key_B[start:stop])
