"""Which directed edges some events hold at which times."""

from itertools import chain

import numpy as np

from tpnet_dist.events.batch_plan import Positions
from tpnet_dist.events.edge_history import EdgeKeys, edge_keys
from tpnet_dist.events.view import EventView


class TimeGroupEdges:
    """The edges of B events by their time groups: a group's name is the number of its first event.

    It holds 16 bytes per event.
    """

    def __init__(self, time_group_B: Positions, key_B: EdgeKeys) -> None:
        if (time_group_B[1:] < time_group_B[:-1]).any():
            raise ValueError("time groups of events must not fall; give the parts of a log in order")
        self._time_group_B, self._key_B = time_group_B, key_B

    @classmethod
    def of(cls, *views: EventView) -> "TimeGroupEdges":
        """Collect the edges of one or several parts of a log, in order."""
        size, num_nodes = sum(len(view) for view in views), views[0].log.num_nodes
        time_group_B, key_B = np.empty((2, size), dtype=np.int64)
        start = 0
        for chunk in chain.from_iterable(view.stream() for view in views):
            rows = slice(start, start + len(chunk))
            time_group_B[rows] = chunk.time_group
            key_B[rows] = edge_keys(chunk.columns.src, chunk.columns.dst, num_nodes)
            start += len(chunk)
        return cls(time_group_B, key_B)

    def during(self, first: int, last: int) -> EdgeKeys:
        """Return the keys of the distinct edges from time group `first` to `last`, sorted."""
        start = np.searchsorted(self._time_group_B, first, side="left")
        stop = np.searchsorted(self._time_group_B, last, side="right")
        return np.unique(self._key_B[start:stop])
