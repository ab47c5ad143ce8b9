"""Which nodes each batch of a run touches, in which portions they are, and who owns them: one rank's view.

Nodes of different batches are kept apart by keys, batch · num_nodes + node, so that one sort serves them all.

Shape letters: G batches of the run, N its events, E their ends (two per event), M ends in this rank's slices,
V nodes by batch, P ranks, Q portions.
"""

from dataclasses import dataclass

import numpy as np

from tpnet_dist.memory.plan import Bools, EventRun, Floats, Integers, sort_with_place, starts_of_equals
from tpnet_dist.ranks.blocks import Blocks
from tpnet_dist.ranks.portions import Portions


@dataclass(frozen=True)
class Touched:
    """The distinct nodes of every batch, sorted, batch after batch."""

    run: EventRun
    blocks: Blocks
    portions: Portions
    key_V: Integers
    batch_V: Integers
    node_V: Integers
    clock_V: Floats
    """The time of the node's last event in the batch, to which its row will move."""
    own_V: Integers
    """Which of them this rank owns."""
    is_in_portion_QV: Bools
    is_mine_V: Bools
    """Which are in this rank's slices."""
    place_E: Integers
    """For each end of the run's events, which of the nodes it is."""
    portion_E: Integers
    mine_M: Integers
    """The ends in this rank's slices, node after node, and of a node in order of time."""

    @classmethod
    def by(cls, run: EventRun, blocks: Blocks, portions: Portions) -> "Touched":
        batch_E = np.arange(len(run.sizes)).repeat(2 * run.sizes)
        num_keys, num_ends = len(run.sizes) * blocks.num_rows, len(run.node_E)
        assert num_keys.bit_length() + num_ends.bit_length() <= 63, "too many batches for keys of 63 bits"
        key_E, end_E = sort_with_place(batch_E * blocks.num_rows + run.node_E)
        is_first_E = starts_of_equals(key_E)
        place_E = np.empty_like(end_E)
        place_E[end_E] = is_first_E.cumsum() - 1
        first_V = np.flatnonzero(is_first_E)
        # of a node's ends, the last is that of its latest event
        last_V = np.append(first_V[1:], len(key_E)) - 1 if len(key_E) else first_V
        batch_V, key_V = batch_E[end_E[first_V]], key_E[first_V]
        node_V = key_V - batch_V * blocks.num_rows
        first_node, stop_node = blocks.range_of(portions.rank)
        portion_E = _portions(run, portions.count).repeat(2)
        is_in_portion_QV = np.zeros((portions.count, len(key_V)), bool)
        is_in_portion_QV[portion_E, place_E] = True
        mine_QV = is_in_portion_QV[portions.numbers.start : portions.numbers.stop]
        return cls(
            run=run,
            blocks=blocks,
            portions=portions,
            key_V=key_V,
            batch_V=batch_V,
            node_V=node_V,
            clock_V=run.time_N[end_E[last_V] >> 1],
            own_V=np.flatnonzero((node_V >= first_node) & (node_V < stop_node)),
            is_in_portion_QV=is_in_portion_QV,
            is_mine_V=np.logical_or.reduce(mine_QV),
            place_E=place_E,
            portion_E=portion_E,
            mine_M=end_E[portions.rank_of[portion_E[end_E]] == portions.rank],
        )

    @property
    def num_batches(self) -> int:
        return len(self.run.sizes)

    @property
    def rank(self) -> int:
        return self.portions.rank

    def is_mine_alone(self) -> Bools:
        """Which nodes are in one portion only, which is this rank's: (V)."""
        is_alone_V: Bools = np.add.reduce(self.is_in_portion_QV, dtype=np.int64) == 1
        return is_alone_V & self.is_mine_V

    def first_keys(self) -> Integers:
        """The least key of each batch: (G)."""
        return np.arange(self.num_batches) * self.blocks.num_rows

    def batch_borders(self) -> Integers:
        """Where each batch's nodes begin, and where the last one's end: (G + 1)."""
        return self.batch_V.searchsorted(np.arange(self.num_batches + 1))

    def rank_borders(self, keys: Integers) -> Integers:
        """Where among keys each batch's of each rank begin, and those of its last rank end: (G, P + 1)."""
        border_keys_GP = self.first_keys()[:, None] + self.blocks.borders
        borders: Integers = keys.searchsorted(border_keys_GP.reshape(-1)).reshape(border_keys_GP.shape)
        return borders


def _portions(run: EventRun, count: int) -> Integers:
    """Of each event: portions are contiguous and differ by at most one event."""
    size_N, first_N = run.sizes.repeat(run.sizes), (run.sizes.cumsum() - run.sizes).repeat(run.sizes)
    number_N = np.arange(len(run.time_N)) - first_N
    portions: Integers = ((number_N + 1) * count - 1) // size_N
    return portions
