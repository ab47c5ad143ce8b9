"""When each node had its last event, and how much its events weigh, as of the last batch that was planned.

These are functions of the events alone, and every rank sees every event. So every rank keeps them for all
nodes, 8 bytes each where a row takes thousands: then weights are planned too, and nothing travels but rows.

Shape letters: N all nodes, E ends of events, V nodes that batches touch.
"""

import numpy as np

from tpnet_dist.memory.plan import Floats
from tpnet_dist.memory.touched import Touched
from tpnet_dist.memory.walks import Walk


class Clocks:
    """Of all nodes, on every rank."""

    def __init__(self, num_nodes: int, walk: Walk) -> None:
        self.walk = walk
        self.clock_N: Floats = np.zeros(num_nodes)
        """Seconds; 0 before the first event."""
        self.degree_N: Floats = np.zeros(num_nodes if walk.keeps_degree else 0)
        """Sum of the weights of a node's events on its clock, for walks that divide by it."""
        self._saved: tuple[Floats, Floats] | None = None

    def reset(self) -> None:
        self.load(np.zeros_like(self.clock_N), np.zeros_like(self.degree_N))

    def load(self, clock_N: Floats, degree_N: Floats) -> None:
        self.clock_N[:], self.degree_N[:] = clock_N, degree_N
        self._saved = None

    def snapshot(self) -> None:
        """A copy, which a snapshot of the rows is not: these are few bytes."""
        self._saved = self.clock_N.copy(), self.degree_N.copy()

    def restore(self) -> None:
        assert self._saved is not None, "restore needs a snapshot"
        self.clock_N[:], self.degree_N[:] = self._saved

    def forget_snapshot(self) -> None:
        self._saved = None

    def weights_of(self, touched: Touched) -> Floats | None:
        """Sum of the weights of each node's events in its batch, on its new clock; None if nobody asks."""
        if not self.walk.keeps_degree:
            return None
        age_E = touched.clock_V[touched.place_E] - touched.run.time_N.repeat(2)
        weight_E = self.walk.event_weights(age_E)
        return np.bincount(touched.place_E, weight_E, minlength=len(touched.key_V)).astype(np.float64)

    def move(self, touched: Touched, nodes: slice, weight_V: Floats | None) -> None:
        """Some of the touched nodes, distinct ones, to the times of their events."""
        node_V, clock_V = touched.node_V[nodes], touched.clock_V[nodes]
        if weight_V is not None:
            kept_V = self.walk.event_weights(clock_V - self.clock_N[node_V])
            self.degree_N[node_V] = self.degree_N[node_V] * kept_V + weight_V[nodes]
        self.clock_N[node_V] = clock_V
