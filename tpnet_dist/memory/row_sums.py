"""The sums that make new rows out of fetched ones, laid out before any row is read.

A message to layer l is a term that reads layer l−1 of its sender. Where the receiver is this rank's own, one
more term is the receiver's own layer l, carried to its new clock: the sum is then the new row, but for what
other ranks send. The terms for one layer of one receiver are a *bag*.

Carried rows in the bags spare a second gather, a multiplication and an addition of all rows: recording is
one sum and one write.

Shape letters: V touched nodes, O own ones, M messages, X terms for all layers in the order of the bags,
U fetched nodes, R receivers, k hops, L layers, D width.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tpnet_dist.memory.plan import Integers


@dataclass(frozen=True)
class RowSums:
    """The sums of one batch."""

    num_receivers: int
    bag_starts: Tensor
    """Receivers are sorted, and a receiver's k bags lie together."""
    table_index_X: Tensor
    """What is read of the fetched rows, seen as a flat (U·L, D) table."""
    weight_X: Tensor

    def of_rows(self, rows_ULD: Tensor) -> Tensor:
        """Layers 1 … k of every receiver: (R, k, D)."""
        _, layers, width = rows_ULD.shape
        table = rows_ULD.view(-1, width)
        sums = _sum_bags(table, self.table_index_X, self.bag_starts, self.weight_X)
        return sums.view(self.num_receivers, layers - 1, width)

    def of_messages(self, rows_UD: Tensor, layer: int, layers: int) -> Tensor:
        """One layer of every receiver from messages alone, which read `rows`, the layer below it: (R, D)."""
        hops, device = layers - 1, rows_UD.device
        place_X = torch.arange(len(self.weight_X), device=device)
        bag_X = torch.searchsorted(self.bag_starts, place_X, right=True) - 1
        chosen = (bag_X % hops == layer - 1) & (self.table_index_X % layers == layer - 1)
        starts_R = torch.searchsorted(bag_X[chosen] // hops, torch.arange(self.num_receivers, device=device))
        return _sum_bags(rows_UD, self.table_index_X[chosen] // layers, starts_R, self.weight_X[chosen])


def _sum_bags(table: Tensor, index: Tensor, starts: Tensor, weights: Tensor) -> Tensor:
    # what `F.embedding_bag` calls after checks that take as long as adding up twenty rows
    return torch.embedding_bag(table, index, starts, False, 0, False, weights)[0]


@dataclass(frozen=True)
class BagLayout:
    """Where the terms of a run of batches lie.

    A node's terms lie together: all for layer 1, its own row first, then all for layer 2, and so on.
    """

    start_V: Integers
    """Where a node's terms begin; one more entry says where all end."""
    count_V: Integers
    """How many terms it has for each layer."""
    slot_O: Integers
    """Where own rows lie for layer 1; for each further layer they lie `count` places on."""
    slot_M: Integers
    """Likewise messages."""

    @classmethod
    def of(cls, num_touched: int, own_O: Integers, to_M: Integers, hops: int) -> "BagLayout":
        """`own_O`: nodes whose own rows are terms; `to_M`: the nodes that messages go to, sorted."""
        messages_V = np.bincount(to_M, minlength=num_touched)
        count_V = messages_V.copy()
        count_V[own_O] += 1
        start_V = np.append(0, hops * count_V.cumsum())
        # a node's first message comes after its own row, if that is a term
        first_M = start_V[:-1] + count_V - messages_V.cumsum()
        return cls(start_V, count_V, start_V[own_O], np.arange(len(to_M)) + first_M[to_M])

    def bag_starts(self, receiver_R: Integers, hops: int) -> Integers:
        """(R, k)."""
        start_R, count_R = self.start_V[receiver_R], self.count_V[receiver_R]
        return np.stack([start_R + layer * count_R for layer in range(hops)], axis=1)
