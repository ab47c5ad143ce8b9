"""Which sums a rank makes for each batch of a run, for whom, and what it gets from others.

Everybody knows every slice, so nobody needs to announce what he sends.

Shape letters: G batches, V touched nodes by batch, O own ones, M messages of this rank's slices, R receivers
of its sums, X terms of them, P ranks, k hops.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tpnet_dist.memory.fetch_plan import FetchPlan
from tpnet_dist.memory.plan import Floats, Integers, sort_with_place
from tpnet_dist.memory.row_sums import BagLayout, RowSums
from tpnet_dist.memory.touched import Touched
from tpnet_dist.memory.walks import Walk
from tpnet_dist.ranks.exchange import Delivery, ExchangeRoute


@dataclass(frozen=True)
class RecordPlan:
    """One batch."""

    sums: RowSums
    delivery: Delivery
    local_V: Tensor
    """This rank's rows that change, as local ids; the delivery keeps one sum for each."""


class RecordPlanner:
    """Plans the batches of a run together."""

    def __init__(self, touched: Touched, fetch: FetchPlan, walk: Walk, device: torch.device) -> None:
        self.touched, self.fetch, self.walk, self.device = touched, fetch, walk, device
        self.to_M, self.from_M = touched.place_E[touched.mine_M], touched.place_E[touched.mine_M ^ 1]
        self.layout = BagLayout.of(len(touched.key_V), touched.own_V, self.to_M, walk.hops)
        self.receiver_R = np.flatnonzero(self.layout.count_V)

    def plan(self, dtype: torch.dtype) -> list[RecordPlan]:
        """`dtype`: that of the rows."""
        touched = self.touched
        first_node, _ = touched.blocks.range_of(touched.rank)
        own_G = np.bincount(touched.batch_V[touched.own_V], minlength=touched.num_batches)
        local = self._by_batch(touched.node_V[touched.own_V] - first_node, own_G)
        columns = zip(self._plan_sums(dtype), self._plan_deliveries(), local, strict=True)
        return [RecordPlan(*column) for column in columns]

    def _plan_sums(self, dtype: torch.dtype) -> list[RowSums]:
        touched, layout, hops = self.touched, self.layout, self.walk.hops
        first_X_G = layout.start_V[touched.batch_borders()]
        batch_R = touched.batch_V[self.receiver_R]
        starts_Rk = layout.bag_starts(self.receiver_R, hops) - first_X_G[batch_R, None]
        receivers_G, terms_G = np.bincount(batch_R, minlength=touched.num_batches), np.diff(first_X_G)
        table_index_X, weight_X = self._terms(np.float32 if dtype == torch.float32 else np.float64)
        columns = zip(
            receivers_G.tolist(),
            self._by_batch(starts_Rk.reshape(-1), receivers_G * hops),
            self._by_batch(table_index_X, terms_G),
            self._by_batch(weight_X, terms_G),
            strict=True,
        )
        return [RowSums(*column) for column in columns]

    def _terms(self, dtype: npt.DTypeLike) -> tuple[Integers, npt.NDArray[Any]]:
        """What terms read, and their weights, in the order of the bags."""
        touched, layout = self.touched, self.layout
        row_V = (self.fetch.place_V - self.fetch.border_GP[touched.batch_V, 0]) * self.walk.layers
        # an own row is read at the layer it is for, a sender's one below
        row_O, row_M = row_V[touched.own_V] + 1, row_V[self.from_M]
        slot_O, slot_M = layout.slot_O, layout.slot_M
        count_O, count_M = layout.count_V[touched.own_V], layout.count_V[self.to_M]
        table_index_X = np.empty(layout.start_V[-1], np.int64)
        weight_X = np.empty(layout.start_V[-1], dtype)
        for layer, (weight_O, weight_M) in enumerate(zip(*self._weights(), strict=True)):
            table_index_X[slot_O], table_index_X[slot_M] = row_O + layer, row_M + layer
            weight_X[slot_O], weight_X[slot_M] = weight_O, weight_M
            slot_O, slot_M = slot_O + count_O, slot_M + count_M
        return table_index_X, weight_X

    def _weights(self) -> tuple[list[Floats], list[Floats]]:
        """By layer, of own rows, carried to their new clocks, and of messages."""
        touched, fetch = self.touched, self.fetch
        own_U, from_U = fetch.place_V[touched.own_V], fetch.place_V[self.from_M]
        clock_M = touched.clock_V[self.to_M]
        carried = self.walk.carry_weights(touched.clock_V[touched.own_V] - fetch.clock_U[own_U])
        messages = self.walk.message_weights(
            clock_M - touched.run.time_N[touched.mine_M >> 1],
            clock_M - fetch.clock_U[from_U],
            None if fetch.degree_U is None else fetch.degree_U[from_U],
        )
        return carried, messages

    def _plan_deliveries(self) -> list[Delivery]:
        """Sums for other ranks' rows go to them; what they send comes batch by batch, sender after sender."""
        touched, num_ranks, rank = self.touched, self.touched.blocks.num_ranks, self.touched.rank
        border_GP = touched.rank_borders(touched.key_V[self.receiver_R])
        send_counts_GP = np.diff(border_GP)
        send_counts_GP[:, rank] = 0
        sends_OP = touched.is_in_slice_VP[touched.own_V]
        sends_OP[:, rank] = False
        place, sender = sends_OP.nonzero()
        batch_O = touched.batch_V[touched.own_V]
        trip, order = sort_with_place(batch_O[place] * num_ranks + sender)
        recv_counts_GP = np.bincount(trip, minlength=len(border_GP) * num_ranks).reshape(-1, num_ranks)
        receiver = (place - batch_O.searchsorted(batch_O[place]))[order]
        columns = zip(
            (border_GP[:, rank : rank + 2] - border_GP[:, :1]).tolist(),
            send_counts_GP.tolist(),
            recv_counts_GP.tolist(),
            self._by_batch(receiver, recv_counts_GP.sum(1)),
            strict=True,
        )
        return [Delivery(slice(*own), ExchangeRoute(sent, got), at) for own, sent, got, at in columns]

    def _by_batch(self, array: npt.NDArray[Any], size_G: Integers) -> Sequence[Tensor]:
        return torch.from_numpy(array).to(self.device).split_with_sizes(size_G.tolist())
