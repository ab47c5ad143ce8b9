"""The sums that make new rows out of fetched ones, laid out before any row is read.

A message to layer l is a term that reads layer l−1 of its sender. Where the receiver is this rank's own, one
more term is the receiver's own layer l, carried to its new clock: the sum is then the new row, but for what
other ranks send. The terms for one layer of one receiver are a *bag*.

Shape letters: V touched nodes, T terms for a layer, X terms for all layers in the order of bags, U fetched
nodes, R receivers, G batches, k hops, L layers, D width.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tpnet_dist.memory.plan import Floats, Integers, sort_with_place, starts_of_equals


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
        """One layer of every receiver from messages alone, given the layer below it: (R, D)."""
        hops, device = layers - 1, rows_UD.device
        place_X = torch.arange(len(self.weight_X), device=device)
        bag_X = torch.searchsorted(self.bag_starts, place_X, right=True) - 1
        chosen = (bag_X % hops == layer - 1) & (self.table_index_X % layers == layer - 1)
        starts_R = torch.searchsorted(bag_X[chosen] // hops, torch.arange(self.num_receivers, device=device))
        return _sum_bags(rows_UD, self.table_index_X[chosen] // layers, starts_R, self.weight_X[chosen])


def _sum_bags(table: Tensor, index: Tensor, starts: Tensor, weights: Tensor) -> Tensor:
    # what `F.embedding_bag` comes to, without its checks: they take as long as summing 20 rows
    return torch.embedding_bag(table, index, starts, False, 0, False, weights)[0]


@dataclass(frozen=True)
class BagLayout:
    """The sums of a whole run of batches, receivers of one after those of another."""

    receiver_R: Integers
    """Which touched nodes."""
    count_R: Integers
    """How many terms each has for a layer."""
    start_Rk: Integers
    table_index_X: Integers
    weight_X: Floats

    @classmethod
    def of(cls, receiver_T: Integers, table_index_T: Integers, weight_kT: Floats) -> "BagLayout":
        """Terms in any order; `table_index` is what they read for layer 1, one less than for layer 2."""
        hops, num_terms = weight_kT.shape
        layer_k1 = np.arange(hops)[:, None]
        ordered_T, term_T = sort_with_place(receiver_T)
        is_first_T = starts_of_equals(ordered_T)
        start_R, group_T = np.flatnonzero(is_first_T), is_first_T.cumsum() - 1
        count_R = np.diff(start_R, append=num_terms)
        # receiver r's bag for layer l begins at k · start + (l − 1) · count
        place_T = np.arange(num_terms) + (hops - 1) * start_R[group_T]
        order_X = np.empty(hops * num_terms, np.int64)
        order_X[place_T + layer_k1 * count_R[group_T]] = term_T + layer_k1 * num_terms
        return cls(
            receiver_R=ordered_T[start_R],
            count_R=count_R,
            start_Rk=hops * start_R[:, None] + count_R[:, None] * layer_k1.T,
            table_index_X=(table_index_T + layer_k1).reshape(-1)[order_X],
            weight_X=weight_kT.reshape(-1)[order_X],
        )

    def split(self, receivers_G: Integers, dtype: torch.dtype, device: torch.device) -> list[RowSums]:
        """By batch, given how many receivers each has."""
        hops = self.start_Rk.shape[1]
        border_G = np.append(0, receivers_G.cumsum())
        first_X_G = hops * np.append(0, self.count_R.cumsum())[border_G]
        starts_Rk = self.start_Rk - first_X_G[:-1].repeat(receivers_G)[:, None]
        terms_G = np.diff(first_X_G).tolist()
        columns = zip(
            receivers_G.tolist(),
            torch.from_numpy(starts_Rk.reshape(-1))
            .to(device)
            .split_with_sizes((receivers_G * hops).tolist()),
            torch.from_numpy(self.table_index_X).to(device).split_with_sizes(terms_G),
            torch.from_numpy(self.weight_X).to(device, dtype).split_with_sizes(terms_G),
            strict=True,
        )
        return [RowSums(*column) for column in columns]
