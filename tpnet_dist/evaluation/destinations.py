"""Heuristics that look at a link's destination alone: how lately, and how often, it was one before."""

from itertools import chain

import numpy as np
import numpy.typing as npt

from tpnet_dist.events.edge_history import EdgeHistory, NodeIds
from tpnet_dist.events.view import EventView

Scores = npt.NDArray[np.float64]


class Destinations:
    """Knows only what lies before the batch; `before_event` is the number in the log of its first event."""

    def __init__(self, history: EdgeHistory, log_time_groups: npt.NDArray[np.int64]) -> None:
        """`history`: the history of edges from node 0 to each event's destination; `log_time_groups`: by
        event of the log."""
        self._history, self._time_groups = history, log_time_groups

    @classmethod
    def of(cls, *views: EventView) -> "Destinations":
        """Collect the destinations of the parts of a log, which must be given in order."""
        log = views[0].log
        time_groups = np.zeros(len(log), np.int64)
        dst, index = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
        for chunk in chain.from_iterable(view.stream() for view in views):
            time_groups[chunk.index] = chunk.time_group
            dst.append(chunk.columns.dst)
            index.append(chunk.index)
        dst_B = np.concatenate(dst)
        history = EdgeHistory(np.zeros_like(dst_B), dst_B, np.concatenate(index), num_nodes=log.num_nodes)
        return cls(history, time_groups)

    def recency(self, src_Q: NodeIds, dst_Q: NodeIds, before_event: int) -> Scores:
        """Return higher scores for those whose last event as a destination is later; 0 for those that never
        were one."""
        last_Q = self._history.last_before(np.zeros_like(dst_Q), dst_Q, before_event)
        # events of one time are equally late
        return np.where(last_Q < 0, 0.0, 1.0 + self._time_groups[last_Q])

    def popularity(self, src_Q: NodeIds, dst_Q: NodeIds, before_event: int) -> Scores:
        """Return how many earlier events had each node as their destination."""
        return self._history.count_before(np.zeros_like(dst_Q), dst_Q, before_event).astype(np.float64)
