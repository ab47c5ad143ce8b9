"""EdgeBank (Poursafaei et al. 2022), the baseline: a link is likely if it was seen before, or lately."""

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
    history's own.
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
        last_Q = self._history.last_before(src_Q, dst_Q, before_event)
        num_seen = int(np.searchsorted(self._positions_B, before_event))
        if not num_seen:
            return np.zeros(len(last_Q), dtype=np.float32)
        # no event lies within the gap that a quantile falls into, so the next event's time does as well
        start_time = self._times_B[ceil((num_seen - 1) * (1 - share))]
        first_remembered = int(self._positions_B[np.searchsorted(self._times_B[:num_seen], start_time)])
        return (last_Q >= first_remembered).astype(np.float32)
