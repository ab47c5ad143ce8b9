"""EdgeBank (Poursafaei et al. 2022): a link is likely if it was seen before, lately or often."""

from functools import cached_property
from itertools import chain
from math import ceil

import numpy as np
import numpy.typing as npt

from tpnet_dist.errors import InputError
from tpnet_dist.events.batch_plan import Positions
from tpnet_dist.events.edge_history import EdgeHistory, NodeIds
from tpnet_dist.events.shards import Times
from tpnet_dist.events.view import EventView

Scores = npt.NDArray[np.float32]


class EdgeBank:
    """Scores 1 for the edges it remembers, else 0; it knows only what lies before the batch.

    `before_event` is the number in the log of the batch's first event. It holds 16 bytes per event beside the
    history's own, and 8 more to know how soon edges repeat.
    """

    def __init__(self, history: EdgeHistory, position_B: Positions, time_B: Times) -> None:
        """Take positions and times of the history's events, in order."""
        self._history, self._positions_B, self._times_B = history, position_B, time_B

    @classmethod
    def of(cls, *views: EventView) -> "EdgeBank":
        """Make one of all that may be remembered, in order: the parts before the evaluated one, and that
        one."""
        stream = chain.from_iterable(view.stream() for view in views)
        chunks = [(chunk.index, chunk.columns.time) for chunk in stream]
        empty = views[0].read(0, 0)
        position_B = np.concatenate([empty.index, *(index for index, _ in chunks)])
        time_B = np.concatenate([empty.columns.time, *(time for _, time in chunks)])
        return cls(EdgeHistory.of(*views), position_B, time_B)

    def unlimited(self, src_Q: NodeIds, dst_Q: NodeIds, before_event: int) -> Scores:
        """Score links by a memory of every edge seen."""
        return (self._history.last_before(src_Q, dst_Q, before_event) >= 0).astype(np.float32)

    def time_window(self, src_Q: NodeIds, dst_Q: NodeIds, before_event: int, *, share: float) -> Scores:
        """Score links by a memory of the edges seen in the last `share` of the earlier events, to the time.

        This is DyGLib's `fixed_proportion`: edges seen no earlier than quantile 1 - share of the times before
        the batch.
        """
        if not 0 < share <= 1:
            raise InputError(f"share is {share}, but must be above 0 and at most 1; choose such a share")
        if not (num_seen := self._num_seen(before_event)):
            return np.zeros(len(src_Q), dtype=np.float32)
        # no event lies within the gap that a quantile falls into, so the next event's time does as well
        start_time = self._times_B[ceil((num_seen - 1) * (1 - share))]
        return self._since(start_time, src_Q, dst_Q, before_event)

    def repeat_interval(self, src_Q: NodeIds, dst_Q: NodeIds, before_event: int) -> Scores:
        """Score links by a memory of the edges seen in a window as long as edges take to repeat.

        That is the mean gap between an edge's events, of edges seen once 0, averaged over distinct edges.
        """
        if not (num_seen := self._num_seen(before_event)):
            return np.zeros(len(src_Q), dtype=np.float32)
        length = self._sums_of_gaps[num_seen - 1] / self._history.num_edges_before(before_event)
        return self._since(self._times_B[num_seen - 1] - length, src_Q, dst_Q, before_event)

    def repeat_threshold(self, src_Q: NodeIds, dst_Q: NodeIds, before_event: int) -> Scores:
        """Score links by a memory of the edges seen at least as often as the average edge."""
        if not (num_seen := self._num_seen(before_event)):
            return np.zeros(len(src_Q), dtype=np.float32)
        threshold = num_seen / self._history.num_edges_before(before_event)
        count_Q = self._history.count_before(src_Q, dst_Q, before_event)
        return (count_Q >= threshold).astype(np.float32)

    def _num_seen(self, before_event: int) -> int:
        return int(np.searchsorted(self._positions_B, before_event))

    def _since(self, start_time: float, src_Q: NodeIds, dst_Q: NodeIds, before_event: int) -> Scores:
        """Return 1 for edges seen at or after a time, else 0."""
        place = np.searchsorted(self._times_B[: self._num_seen(before_event)], start_time)
        first_remembered = int(self._positions_B[place])
        last_Q = self._history.last_before(src_Q, dst_Q, before_event)
        return (last_Q >= first_remembered).astype(np.float32)

    @cached_property
    def _sums_of_gaps(self) -> npt.NDArray[np.float64]:
        """The sum over edges of the mean gap between their events, after each event."""
        edge_B, event_B = self._history.events_by_edge()
        order_B = np.searchsorted(self._positions_B, event_B)
        time_B = self._times_B[order_B]
        is_first_B = np.diff(edge_B, prepend=-1) > 0
        start_B = np.flatnonzero(is_first_B)[edge_B]
        nth_B = np.arange(len(edge_B)) - start_B
        mean_B = (time_B - time_B[start_B]) / np.maximum(nth_B, 1)
        grown_B = np.where(is_first_B, 0.0, np.diff(mean_B, prepend=0.0))
        in_order_B = np.empty(len(edge_B))
        in_order_B[order_B] = grown_B
        return np.cumsum(in_order_B)
