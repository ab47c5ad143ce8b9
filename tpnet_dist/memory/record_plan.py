"""Which sums a rank makes for each batch of a run, for whom, and what it gets from others.

Everybody knows every slice, so nobody needs to announce what he sends.

Shape letters: G batches, V touched nodes by batch, U fetched ones, T terms of sums, R receivers, P ranks,
k hops.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tpnet_dist.memory.fetch_plan import FetchPlan
from tpnet_dist.memory.plan import Integers, sort_with_place
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


def plan_records(
    touched: Touched, fetch: FetchPlan, walk: Walk, dtype: torch.dtype, device: torch.device
) -> list[RecordPlan]:
    """For every batch of the run."""
    layout = _lay_out(touched, fetch, walk)
    receivers_G = np.bincount(touched.batch_V[layout.receiver_R], minlength=touched.num_batches)
    own_G = np.bincount(touched.batch_V[touched.own_V], minlength=touched.num_batches)
    first_node, _ = touched.blocks.range_of(touched.rank)
    local = torch.from_numpy(touched.node_V[touched.own_V] - first_node).to(device)
    columns = zip(
        layout.split(receivers_G, dtype, device),
        _plan_deliveries(touched, layout.receiver_R, device),
        local.split_with_sizes(own_G.tolist()),
        strict=True,
    )
    return [RecordPlan(*column) for column in columns]


def _lay_out(touched: Touched, fetch: FetchPlan, walk: Walk) -> BagLayout:
    """The messages of this rank's slices, and its own rows carried on."""
    own_V, mine_E, clock_V = touched.own_V, touched.mine_E, touched.clock_V
    to_T, from_T = touched.place_E[mine_E], touched.place_E[mine_E ^ 1]
    place_V, position_V = fetch.place_V, fetch.place_V - fetch.border_GP[touched.batch_V, 0]
    carry_kT = walk.carry_weights(clock_V[own_V] - fetch.clock_U[place_V[own_V]])
    message_kT = walk.message_weights(
        clock_V[to_T] - touched.run.time_N[mine_E >> 1],
        clock_V[to_T] - fetch.clock_U[place_V[from_T]],
        None if fetch.degree_U is None else fetch.degree_U[place_V[from_T]],
    )
    # a carried row is read one layer higher than that of a sender
    table_index_T = [position_V[own_V] * walk.layers + 1, position_V[from_T] * walk.layers]
    return BagLayout.of(
        np.concatenate([own_V, to_T]),
        np.concatenate(table_index_T),
        np.concatenate([carry_kT, message_kT], axis=1),
    )


def _plan_deliveries(touched: Touched, receiver_R: Integers, device: torch.device) -> list[Delivery]:
    """Sums for other ranks' rows go to them; what they send comes batch by batch, sender after sender."""
    num_ranks, rank = touched.blocks.num_ranks, touched.rank
    border_GP = touched.borders_among(touched.key_V[receiver_R])
    send_counts_GP = np.diff(border_GP)
    send_counts_GP[:, rank] = 0
    own_GP = border_GP[:, rank : rank + 2] - border_GP[:, :1]
    sends_VP = touched.is_in_slice_VP[touched.own_V]
    sends_VP[:, rank] = False
    place, sender = sends_VP.nonzero()
    batch_V = touched.batch_V[touched.own_V]
    trip, order = sort_with_place(batch_V[place] * num_ranks + sender)
    recv_counts_GP = np.bincount(trip, minlength=len(border_GP) * num_ranks).reshape(-1, num_ranks)
    receiver = torch.from_numpy((place - batch_V.searchsorted(batch_V[place]))[order]).to(device)
    columns = zip(
        own_GP.tolist(),
        send_counts_GP.tolist(),
        recv_counts_GP.tolist(),
        receiver.split_with_sizes(recv_counts_GP.sum(1).tolist()),
        strict=True,
    )
    return [
        Delivery(slice(*own), ExchangeRoute(sent, got), receivers) for own, sent, got, receivers in columns
    ]
