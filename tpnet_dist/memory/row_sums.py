"""The sums that make new rows out of fetched ones, laid out before any row is read.

A message to layer l is a term that reads layer l−1 of its sender. The messages of one portion to one layer of
one receiver are a *bag*: they are added in order of time. Who owns the receiver takes the sum of its first
portion, adds the receiver's own layer l, carried to its new clock, then the sums of further portions in their
order: as near as can be to the released code, which adds message by message to the row. Nothing in this
depends on how many ranks there are, so no bit of a row does.

Most receivers meet one portion only. Where it is a portion of their owner, their carried row is the last term
of its bag, and the sum is the new row: no second gather, multiplication and addition (`RowSums`). The others
take a second round (`SharedSums`).

Shape letters: W pairs of a receiver and a portion, X terms for all layers in the order of the bags, U fetched
nodes, S receivers that several portions or ranks share, Y sums for them, k hops, L layers, D width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Bags:
    """Weighted sums of a table's rows; the k bags of a receiver lie together."""

    starts: Tensor
    index_X: Tensor
    weight_X: Tensor

    def of(self, table_D: Tensor) -> Tensor:
        if not len(self.starts):
            return table_D[:0]
        # what `F.embedding_bag` calls after checks that take as long as adding up twenty rows
        return torch.embedding_bag(table_D, self.index_X, self.starts, False, 0, False, self.weight_X)[0]

    def of_layer(self, layer: int, hops: int, chosen_X: Tensor) -> "Bags":
        """One bag for each receiver, with the chosen terms of this layer."""
        place_X = torch.arange(len(self.index_X), device=self.index_X.device)
        bag_X = torch.searchsorted(self.starts, place_X, right=True) - 1
        chosen_X = chosen_X & (bag_X % hops == layer - 1)
        receivers = torch.arange(len(self.starts) // hops, device=self.starts.device)
        starts = torch.searchsorted(bag_X[chosen_X] // hops, receivers)
        return Bags(starts, self.index_X[chosen_X], self.weight_X[chosen_X])


@dataclass(frozen=True)
class RowSums:
    """What a rank adds up of its own portions of one batch."""

    bags: Bags
    """They read the fetched rows, seen as a flat (U·L, D) table."""
    hops: int

    def of_rows(self, rows_ULD: Tensor) -> Tensor:
        """Layers 1 … k of every receiver: (W, k, D)."""
        width = rows_ULD.shape[2]
        return self.bags.of(rows_ULD.view(-1, width)).view(-1, self.hops, width)

    def of_messages(self, rows_UD: Tensor, layer: int) -> Tensor:
        """One layer of every receiver from messages alone, which read `rows`, the layer below it: (W, D)."""
        layers, index_X = self.hops + 1, self.bags.index_X
        # an own row is read at the layer it is for, a sender's one below
        bags = self.bags.of_layer(layer, self.hops, index_X % layers == layer - 1)
        return Bags(bags.starts, bags.index_X // layers, bags.weight_X).of(rows_UD)


@dataclass(frozen=True)
class SharedSums:
    """New rows of this rank from sums of several portions, its own and those that others sent."""

    own_index: Tensor
    """Layers 1 … k of these S rows among the fetched, seen as a flat (U·L, D) table."""
    bags: Bags
    """They read these layers, and after them the sums: a flat ((S + Y)·k, D) table."""
    hops: int

    def of_rows(self, rows_ULD: Tensor, own_YkD: Tensor, incoming_YkD: Tensor) -> Tensor:
        """(S, k, D)."""
        width = rows_ULD.shape[2]
        rows = rows_ULD.view(-1, width).index_select(0, self.own_index)
        table = torch.cat([rows, own_YkD.view(-1, width), incoming_YkD.view(-1, width)])
        return self.bags.of(table).view(-1, self.hops, width)

    def of_messages(self, sums_YD: Tensor, layer: int) -> Tensor:
        """One layer without the rows as they were: (S, D)."""
        bags = self.bags.of_layer(layer, self.hops, self.bags.index_X >= len(self.own_index))
        num_own = len(self.own_index) // self.hops
        return Bags(bags.starts, bags.index_X // self.hops - num_own, bags.weight_X).of(sums_YD)
