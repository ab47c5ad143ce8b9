"""EdgeBank (Poursafaei et al. 2022), the baseline: a link is likely if it was seen before, or lately.

Shape letter: N events of the history.
"""

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

    def __init__(self, history: EdgeHistory, position_N: Positions, time_N: Times) -> None:
        """Positions and times of the history's events, in order."""
        self._history, self._positions_N, self._times_N = history, position_N, time_N

    @classmethod
    def of(cls, *views: EventView) -> "EdgeBank":
        """Of all that may be remembered, in order: the parts before the evaluated one, and that one."""
        stream = chain.from_iterable(view.stream() for view in views)
        chunks = [(chunk.index, chunk.columns.time) for chunk in stream]
        empty = views[0].read(0, 0)
        position_N = np.concatenate([empty.index, *(index for index, _ in chunks)])
        time_N = np.concatenate([empty.columns.time, *(time for _, time in chunks)])
        return cls(EdgeHistory.of(*views), position_N, time_N)

    def unlimited(self, src_B: NodeIds, dst_B: NodeIds, before_event: int) -> Scores:
        """Remembers every edge seen."""
        return (self._history.last_before(src_B, dst_B, before_event) >= 0).astype(np.float32)

    def time_window(self, src_B: NodeIds, dst_B: NodeIds, before_event: int, *, share: float) -> Scores:
        """Remembers the edges seen in the last `share` of the earlier events, to the time.

        As DyGLib (`fixed_proportion`): seen no earlier than quantile 1 - share of the times before the batch.
        """
        if not 0 < share <= 1:
            raise InputError(f"share is {share}, but must be above 0 and at most 1; choose such a share")
        last_B = self._history.last_before(src_B, dst_B, before_event)
        num_seen = int(np.searchsorted(self._positions_N, before_event))
        if not num_seen:
            return np.zeros(len(last_B), dtype=np.float32)
        # no event lies within the gap that a quantile falls into, so the next event's time does as well
        start_time = self._times_N[ceil((num_seen - 1) * (1 - share))]
        first_remembered = int(self._positions_N[np.searchsorted(self._times_N[:num_seen], start_time)])
        return (last_B >= first_remembered).astype(np.float32)
