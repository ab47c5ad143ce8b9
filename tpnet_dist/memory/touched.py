"""Which nodes each batch of a run touches, in whose slices they are, and who owns them: one rank's view.

Nodes of different batches are kept apart by keys, batch · num_nodes + node, so that one sort serves all.

Shape letters: G batches of the run, N its events, E their ends (two per event), V nodes by batch, P ranks.
"""

from dataclasses import dataclass

import numpy as np

from tpnet_dist.memory.plan import Bools, EventRun, Floats, Integers, sort_with_place, starts_of_equals
from tpnet_dist.ranks.blocks import Blocks


@dataclass(frozen=True)
class Touched:
    """The distinct nodes of every batch, sorted, batch after batch."""

    run: EventRun
    blocks: Blocks
    rank: int
    key_V: Integers
    batch_V: Integers
    node_V: Integers
    clock_V: Floats
    """The time of the node's last event in the batch, to which its row will move."""
    own_V: Integers
    """Which of them this rank owns."""
    is_in_slice_VP: Bools
    """In which ranks' slices they are."""
    place_E: Integers
    """For each end of the run's events, which of the nodes it is."""
    mine_E: Integers
    """The ends of this rank's slices, sources and destinations in turn."""

    @classmethod
    def by(cls, run: EventRun, blocks: Blocks, rank: int) -> "Touched":
        batch_E = np.arange(len(run.sizes)).repeat(2 * run.sizes)
        key_E, end_E = sort_with_place(batch_E * blocks.num_rows + run.node_E)
        is_first_E = starts_of_equals(key_E)
        place_E = np.empty_like(end_E)
        place_E[end_E] = is_first_E.cumsum() - 1
        # among equals, the last end is that of the latest event
        first_V, last_V = np.flatnonzero(is_first_E), np.flatnonzero(np.roll(is_first_E, -1))
        batch_V, key_V = batch_E[end_E[first_V]], key_E[first_V]
        node_V = key_V - batch_V * blocks.num_rows
        first_node, stop_node = blocks.range_of(rank)
        slice_E = _slices(run, blocks.num_ranks).repeat(2)
        is_in_slice_VP = np.zeros((len(key_V), blocks.num_ranks), bool)
        is_in_slice_VP[place_E, slice_E] = True
        return cls(
            run=run,
            blocks=blocks,
            rank=rank,
            key_V=key_V,
            batch_V=batch_V,
            node_V=node_V,
            clock_V=run.time_N[end_E[last_V] >> 1],
            own_V=np.flatnonzero((node_V >= first_node) & (node_V < stop_node)),
            is_in_slice_VP=is_in_slice_VP,
            place_E=place_E,
            mine_E=np.flatnonzero(slice_E == rank),
        )

    @property
    def num_batches(self) -> int:
        return len(self.run.sizes)

    @property
    def first_key_G(self) -> Integers:  # noqa: N802
        return np.arange(self.num_batches) * self.blocks.num_rows

    def borders_among(self, keys: Integers) -> Integers:
        """Where each batch's keys of each rank begin, and where those of its last rank end: (G, P + 1)."""
        wanted_GP = self.first_key_G[:, None] + self.blocks.borders
        borders: Integers = keys.searchsorted(wanted_GP.reshape(-1)).reshape(wanted_GP.shape)
        return borders


def _slices(run: EventRun, num_ranks: int) -> Integers:
    """The rank that scores each event: slices are contiguous and differ by at most one event."""
    first_N, size_N = (run.sizes.cumsum() - run.sizes).repeat(run.sizes), run.sizes.repeat(run.sizes)
    number_N = np.arange(len(run.time_N)) - first_N
    slices: Integers = ((number_N + 1) * num_ranks - 1) // size_N
    return slices
