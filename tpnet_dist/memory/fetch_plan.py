"""Which rows a rank gets for each batch of a run, from whom, and on which clocks they are.

Shape letters: G batches, V touched nodes by batch, U fetched ones, P ranks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from tpnet_dist.memory.clocks import Clocks
from tpnet_dist.memory.plan import Floats, Integers, distinct
from tpnet_dist.memory.touched import Touched


@dataclass(frozen=True)
class FetchPlan:
    """The rows of all batches, batch after batch."""

    node_U: Integers
    """Within a batch distinct and sorted."""
    local_U: Integers
    """Their places in the blocks of their owners."""
    clock_U: Floats
    degree_U: Floats | None
    border_GP: Integers
    """Where each batch's rows of each rank begin, and those of its last rank end: (G, P + 1)."""
    place_V: Integers
    """Where the rows of touched nodes lie in all this; it means nothing for nodes that are not fetched."""
    num_asked: int
    """How many rows the slices ask for; the others are own rows that only other ranks' slices touch."""

    @classmethod
    def of(
        cls, touched: Touched, needed: Sequence[Tensor | None], clocks: Clocks, *, record: bool, at_once: bool
    ) -> "FetchPlan":
        """Rows of this rank's slices, further ones, and of its own those it will have to change.

        Moves the clocks past every batch that is recorded, unless all are recorded `at_once` in the end.
        """
        key_U, num_asked = _choose(touched, needed, record)
        border_GP = touched.rank_borders(key_U)
        node_U = key_U - touched.first_keys().repeat(border_GP[:, -1] - border_GP[:, 0])
        owners_first = np.tile(touched.blocks.borders[:-1], touched.num_batches)
        rows = [slice(first, stop) for first, *_, stop in border_GP.tolist()]
        clock_U, degree_U = _read_clocks(touched, clocks, node_U, rows, moves=record and not at_once)
        return cls(
            node_U=node_U,
            local_U=node_U - owners_first.repeat(np.diff(border_GP).reshape(-1)),
            clock_U=clock_U,
            degree_U=degree_U,
            border_GP=border_GP,
            place_V=_places(touched.key_V, key_U),
            num_asked=num_asked,
        )

    def batch_borders(self) -> Integers:
        """Where each batch's rows begin, and where the last one's end: (G + 1)."""
        return np.append(self.border_GP[:, 0], self.border_GP[-1, -1])


def _choose(touched: Touched, needed: Sequence[Tensor | None], record: bool) -> tuple[Integers, int]:
    """Keys of the rows to fetch, and how many of them slices ask for."""
    key_V, is_mine_V = touched.key_V, touched.is_mine_V
    further = [
        nodes.cpu().numpy() + first_key
        for nodes, first_key in zip(needed, touched.first_keys(), strict=True)
        if nodes is not None
    ]
    asked = key_V[is_mine_V]
    if further:
        asked = distinct(np.concatenate([asked, *further]))
    # own rows that other ranks' events change are carried on from here too
    alone = key_V[touched.own_V[~is_mine_V[touched.own_V]]] if record else key_V[:0]
    if further and len(alone) and len(asked):
        alone = alone[asked[np.minimum(asked.searchsorted(alone), len(asked) - 1)] != alone]
    # two sorted runs, which a stable sort merges
    return np.sort(np.concatenate([asked, alone]), kind="stable") if len(alone) else asked, len(asked)


def _places(key_V: Integers, key_U: Integers) -> Integers:
    """Where keys lie among others, both sorted; on one rank they are often the same."""
    return np.arange(len(key_V)) if np.array_equal(key_V, key_U) else key_U.searchsorted(key_V)


def _read_clocks(
    touched: Touched, clocks: Clocks, node_U: Integers, rows: list[slice], *, moves: bool
) -> tuple[Floats, Floats | None]:
    """Clocks and degrees before each batch."""
    clock_U = np.empty(len(node_U))
    degree_U = np.empty(len(node_U)) if clocks.walk.keeps_degree else None
    weight_V = clocks.weights_of(touched)
    borders = touched.batch_borders().tolist()
    for batch, here in enumerate(rows):
        clock_U[here] = clocks.clock_N[node_U[here]]
        if degree_U is not None:
            degree_U[here] = clocks.degree_N[node_U[here]]
        if moves:
            clocks.move(touched, slice(borders[batch], borders[batch + 1]), weight_V)
    return clock_U, degree_U
