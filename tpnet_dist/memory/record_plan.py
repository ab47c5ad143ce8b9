"""Which sums a rank makes for each batch of a run, for whom, and what it gets from others.

Everybody knows every portion, so nobody needs to announce what he sends.

Shape letters: G batches, V touched nodes by batch, O own ones, A those of them that meet one portion alone,
of this rank, S the other own ones; M messages of this rank's portions, W pairs of a receiver and a portion
they go to, Y pairs of a shared own node and a portion of any rank, X terms, P ranks, Q portions, k hops.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tpnet_dist.memory.bag_layout import BagLayout
from tpnet_dist.memory.fetch_plan import FetchPlan
from tpnet_dist.memory.plan import Floats, Integers, places_when_sorted, starts_of_equals
from tpnet_dist.memory.row_sums import Bags, RowSums, SharedSums
from tpnet_dist.memory.touched import Touched
from tpnet_dist.memory.walks import Walk
from tpnet_dist.ranks.exchange import Delivery, ExchangeRoute


@dataclass(frozen=True)
class RecordPlan:
    """One batch."""

    sums: RowSums
    """Of them the delivery keeps, first those that are new rows, then those for shared rows."""
    delivery: Delivery
    shared: SharedSums
    local_A: Tensor
    """This rank's rows that change by one portion of its own, as local ids."""
    local_S: Tensor
    """Those that change otherwise."""

    def kept(self, sums: Tensor) -> tuple[Tensor, Tensor]:
        """Of the sums: new rows, and those for shared rows."""
        own = sums[self.delivery.own]
        return own[: len(self.local_A)], own[len(self.local_A) :]


class RecordPlanner:
    """Plans the batches of a run together."""

    def __init__(self, touched: Touched, fetch: FetchPlan, walk: Walk, device: torch.device) -> None:
        self.touched, self.fetch, self.walk, self.device = touched, fetch, walk, device
        self.row_V = (fetch.place_V - fetch.border_GP[touched.batch_V, 0]) * walk.layers
        is_alone_O = touched.is_mine_alone()[touched.own_V]
        self.alone_A, self.shared_S = touched.own_V[is_alone_O], touched.own_V[~is_alone_O]
        carried = walk.carry_weights(
            touched.clock_V[touched.own_V] - fetch.clock_U[fetch.place_V[touched.own_V]]
        )
        self.carried_A = [weight_O[is_alone_O] for weight_O in carried]
        self.carried_S = [weight_O[~is_alone_O] for weight_O in carried]

    def plan(self, dtype: torch.dtype) -> list[RecordPlan]:
        """`dtype`: that of the rows."""
        weight_dtype = np.float32 if dtype == torch.float32 else np.float64
        sums, (own_GP, sent_GP) = self._plan_sums(weight_dtype)
        shared, received_GP = self._plan_shared(weight_dtype)
        counts = zip(own_GP.tolist(), sent_GP.tolist(), received_GP.tolist(), strict=True)
        deliveries = [Delivery(slice(*own), ExchangeRoute(sent, got)) for own, sent, got in counts]
        local = (self._local(nodes) for nodes in (self.alone_A, self.shared_S))
        return [RecordPlan(*column) for column in zip(sums, deliveries, shared, *local, strict=True)]

    def _plan_sums(self, dtype: npt.DTypeLike) -> tuple[list[RowSums], tuple[Integers, Integers]]:
        """And which of each batch's are own ones, and how many go to each rank."""
        touched, hops, rank = self.touched, self.walk.hops, self.touched.rank
        to_M, from_M = (touched.place_E[end_M] for end_M in (touched.mine_M, touched.mine_M ^ 1))
        # a receiver's messages are in order of time, hence of portions
        is_first_M = starts_of_equals(to_M * touched.portions.count + touched.portion_E[touched.mine_M])
        node_W = to_M[is_first_M]
        is_alone_V = np.zeros(len(touched.key_V), bool)
        is_alone_V[self.alone_A] = True
        # by owner, and what is kept by whether it is a new row
        owner_W = touched.node_V[node_W] // touched.blocks.rows_per_rank
        trip_W = 2 * (touched.batch_V[node_W] * touched.blocks.num_ranks + owner_W)
        trip_W += (owner_W == rank) & ~is_alone_V[node_W]
        place_W = places_when_sorted(trip_W)
        own_A = place_W[is_alone_V[node_W]]
        layout = BagLayout.of(place_W[is_first_M.cumsum() - 1], own_A, len(node_W), hops)
        index_X = layout.fill(_of_layers(self.row_V[from_M], hops), self._own_layers(self.alone_A), np.int64)
        weight_X = layout.fill(self._message_weights(to_M, from_M), self.carried_A, dtype)
        of_trip = np.bincount(trip_W >> 1, minlength=touched.num_batches * touched.blocks.num_ranks)
        sent_GP = of_trip.reshape(touched.num_batches, -1)
        stop_GP = sent_GP.cumsum(1)
        own_GP = np.stack([stop_GP[:, rank] - sent_GP[:, rank], stop_GP[:, rank]], axis=1)
        bags = self._bags(layout, stop_GP[:, -1], index_X, weight_X)
        sent_GP[:, rank] = 0
        return [RowSums(each, hops) for each in bags], (own_GP, sent_GP)

    def _plan_shared(self, dtype: npt.DTypeLike) -> tuple[list[SharedSums], Integers]:
        """And how many sums come from each rank, batch by batch, sender after sender."""
        touched, hops, num_ranks = self.touched, self.walk.hops, self.touched.blocks.num_ranks
        to_Y, portion_Y = touched.is_in_portion_QV[:, self.shared_S].T.nonzero()
        batch_S = touched.batch_V[self.shared_S]
        # own sums come first, then those of the other ranks in turn
        sender_Y = touched.portions.rank_of[portion_Y]
        turn_Y = np.where(sender_Y == touched.rank, 0, 1 + sender_Y)
        place_Y = places_when_sorted(batch_S[to_Y] * (num_ranks + 1) + turn_Y)
        # of each batch: its rows, then its sums
        rows_G, sums_G = (
            np.bincount(batch, minlength=touched.num_batches) for batch in (batch_S, batch_S[to_Y])
        )
        first_S, first_Y = rows_G.cumsum() - rows_G, sums_G.cumsum() - sums_G - rows_G
        place_Y -= first_Y[batch_S[to_Y]]
        place_S = np.arange(len(batch_S)) - first_S[batch_S]
        layout = BagLayout.of(to_Y, np.arange(len(batch_S)), len(batch_S), hops, own_after=1)
        index_X = layout.fill(_of_layers(place_Y * hops, hops), _of_layers(place_S * hops, hops), np.int64)
        weight_X = layout.fill([1] * hops, self.carried_S, dtype)
        bags = self._bags(layout, rows_G, index_X, weight_X)
        own_index = np.stack(self._own_layers(self.shared_S), axis=1).reshape(-1)
        trip_Y = batch_S[to_Y] * num_ranks + sender_Y
        received_GP = np.bincount(trip_Y, minlength=touched.num_batches * num_ranks).reshape(-1, num_ranks)
        received_GP[:, touched.rank] = 0
        columns = zip(self._by_batch(own_index, rows_G * hops), bags, strict=True)
        return [SharedSums(own, each, hops) for own, each in columns], received_GP

    def _message_weights(self, to_M: Integers, from_M: Integers) -> list[Floats]:
        touched, fetch = self.touched, self.fetch
        clock_M, from_U = touched.clock_V[to_M], fetch.place_V[from_M]
        return self.walk.message_weights(
            clock_M - touched.run.time_N[touched.mine_M >> 1],
            clock_M - fetch.clock_U[from_U],
            None if fetch.degree_U is None else fetch.degree_U[from_U],
        )

    def _own_layers(self, own: Integers) -> list[Integers]:
        """Where layers 1 … k of own rows lie among the fetched ones; messages read one below."""
        return _of_layers(self.row_V[own] + 1, self.walk.hops)

    def _bags(
        self, layout: BagLayout, receivers_G: Integers, index_X: Integers, weight_X: npt.NDArray[Any]
    ) -> list[Bags]:
        border_G = np.append(0, receivers_G.cumsum())
        first_X_G = layout.start_W[border_G]
        starts = layout.bag_starts() - first_X_G[:-1].repeat(receivers_G)[:, None]
        columns = zip(
            self._by_batch(starts.reshape(-1), receivers_G * layout.hops),
            self._by_batch(index_X, np.diff(first_X_G)),
            self._by_batch(weight_X, np.diff(first_X_G)),
            strict=True,
        )
        return [Bags(*column) for column in columns]

    def _local(self, own: Integers) -> Sequence[Tensor]:
        touched = self.touched
        first_node, _ = touched.blocks.range_of(touched.rank)
        size_G = np.bincount(touched.batch_V[own], minlength=touched.num_batches)
        return self._by_batch(touched.node_V[own] - first_node, size_G)

    def _by_batch(self, array: npt.NDArray[Any], size_G: Integers) -> Sequence[Tensor]:
        return torch.from_numpy(array).to(self.device).split_with_sizes(size_G.tolist())


def _of_layers(first: Integers, hops: int) -> list[Integers]:
    return [first + layer for layer in range(hops)]
