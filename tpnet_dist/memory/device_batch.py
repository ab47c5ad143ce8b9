"""A batch on a GPU: all that the host can tell of it ahead, and the few kernels that need no more.

Everything about a batch is known ahead but its rows and clocks. So the host says where each term of each sum
lies and what it weighs, but for what its row has faded by since its clock. All sums of all layers are made at
once, since nothing is written before they are:

    1. weigh     a term's factor = weight · e^(−rate · (receiver's new clock − the row's clock)), ÷ degree
    2. add       a layer's new value = its old one, faded, and its messages, in the order of their events
    3. write     new layers and clocks

A term is of axis A, a sum, which is a layer's new value, of axis T, its receiver of axis U.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tpnet_dist.device_forms import passes_trial, triton_is_there
from tpnet_dist.memory.event_run import Integers
from tpnet_dist.memory.kernels import Clocks, Ends
from tpnet_dist.memory.numba_tools import compiled
from tpnet_dist.memory.run_plan import RunPlan
from tpnet_dist.memory.walks import LayerRules


class Terms(NamedTuple):
    """What is added up; on the host or on the device. Places are as in `Ends`; numbers are float64."""

    place_A: Tensor
    """The place whose clock and degree weigh the term."""
    index_A: Tensor
    """The layer that is added: of the own rows, or, if some are borrowed, of those gathered by the next
    two."""
    from_own: Tensor
    from_borrowed: Tensor
    weight_A: Tensor
    rate_A: Tensor
    now_A: Tensor
    """The receiver's new clock."""
    divides_A: Tensor
    """1 where the row's degree divides, else 0; empty for walks that do not divide."""
    first_T: Tensor
    """The index of each sum's first term."""
    to_own_T: Tensor
    """The layers that the sums are for, those of own rows first."""
    to_borrowed_T: Tensor
    place_U: Tensor
    clock_U: Tensor
    """The new clock of each of these places."""
    gained_U: Tensor
    """The amounts by which degrees grow; empty for walks that keep none."""

    @classmethod
    def of(cls, ends: Ends, batch: int, rules: LayerRules) -> "Terms":
        here = slice(ends.border[batch], ends.border[batch + 1])
        ends = Ends(
            ends.receiver_E[here], ends.sender_E[here], ends.hops_E[here], ends.time_E[here], ends.border
        )
        # receiver after receiver, as unsigned numbers: own ones first
        order_E = np.argsort(ends.receiver_E.view(np.uint64), kind="stable")
        place_A, index_A, *others_A, first_T, to_T, place_U, clock_U, gained_U = _list_terms(
            ends, order_E, rules
        )
        num_own = int((to_T >= 0).sum())
        of_terms = place_A, *_by_table(index_A), *others_A
        sums = first_T, to_T[:num_own], -1 - to_T[num_own:]
        return cls(*map(torch.from_numpy, (*of_terms, *sums, place_U, clock_U, gained_U)))


def _by_table(index_A: Integers) -> tuple[Integers, Integers, Integers]:
    """Return where terms lie once own and borrowed layers are gathered one after the other; nothing is
    gathered if all are own."""
    is_borrowed_A = index_A < 0
    if not is_borrowed_A.any():
        return index_A, index_A[:0], index_A[:0]
    from_own, from_borrowed = index_A[~is_borrowed_A], -1 - index_A[is_borrowed_A]
    gathered_A = np.empty_like(index_A)
    gathered_A[~is_borrowed_A] = np.arange(len(from_own))
    gathered_A[is_borrowed_A] = np.arange(len(from_own), len(index_A))
    return gathered_A, from_own, from_borrowed


@compiled
def _list_terms(ends, order_E, rules):
    """Return what `Terms` holds, before own and borrowed layers are listed apart: layers of borrowed rows
    count down from -1."""
    layers, divides = len(rules.hop_L), rules.divides_by_degree
    num_ends = len(order_E)
    most = 2 * num_ends * (layers - 1)
    integers, numbers = np.empty((4, most), np.int64), np.empty((4, most))
    place_A, index_A, first_T, to_T = integers[0], integers[1], integers[2], integers[3]
    weight_A, rate_A, now_A, divides_A = numbers[0], numbers[1], numbers[2], numbers[3]
    place_U, clock_U, gained_U = np.empty(num_ends, np.int64), np.empty(num_ends), np.empty(num_ends)
    a, y, v, start = 0, 0, 0, 0
    while start < num_ends:
        receiver, stop = ends.receiver_E[order_E[start]], start
        while stop < num_ends and ends.receiver_E[order_E[stop]] == receiver:
            stop += 1
        # times do not decrease, so the last one is the new clock
        clock = ends.time_E[order_E[stop - 1]]
        place_U[v], clock_U[v], gained_U[v] = receiver, clock, 0.0
        for i in range(start, stop):
            gained_U[v] += np.exp(-rules.rate_W[0] * (clock - ends.time_E[order_E[i]]))
        for layer in range(1, layers):
            hop, parent, rate = rules.hop_L[layer], rules.parent_L[layer], rules.rate_W[rules.scale_L[layer]]
            is_first = True
            for i in range(start, stop):
                e = order_E[i]
                if ends.hops_E[e] < hop:
                    continue
                if is_first:
                    # the layer as it was comes before its messages
                    first_T[y], is_first = a, False
                    to_T[y] = _layer_index(receiver, layer, layers)
                    place_A[a], index_A[a] = receiver, to_T[y]
                    now_A[a], weight_A[a], divides_A[a] = clock, 1.0, 0.0
                    rate_A[a] = rate * (1 if divides else hop)
                    y, a = y + 1, a + 1
                sender = ends.sender_E[e]
                place_A[a], index_A[a] = sender, _layer_index(sender, parent, layers)
                now_A[a], weight_A[a] = clock, np.exp(-rate * (clock - ends.time_E[e]))
                rate_A[a] = 0.0 if divides else rate * (hop - 1)
                divides_A[a] = 1.0 if hop > 1 else 0.0
                a += 1
        start, v = stop, v + 1
    of_terms = place_A[:a], index_A[:a], weight_A[:a], rate_A[:a], now_A[:a], divides_A[: a * divides]
    return (*of_terms, first_T[:y], to_T[:y], place_U[:v], clock_U[:v], gained_U[: v * divides])


@compiled
def _layer_index(place, layer, layers):
    """Return a layer's place in a table of layers: from 0 on of own rows, from -1 down of borrowed ones."""
    return place * layers + layer if place >= 0 else (place + 1) * layers - 1 - layer


@dataclass(frozen=True)
class DeviceBatch:
    """What one batch needs on the device, beside rows and clocks; held on the host until it is sent."""

    nodes_U: Tensor
    place_U: Tensor
    row_U: Tensor
    """The index of each row in the table that it lies in."""
    own: slice
    """The positions of own rows among these."""
    terms: Terms

    @classmethod
    def of(cls, plan: RunPlan, batch: int, rules: LayerRules) -> "DeviceBatch":
        rows_U, own = plan.rows(batch)
        nodes, places, rows = map(torch.from_numpy, (plan.nodes[batch], plan.places[batch], rows_U))
        return cls(nodes, places, rows, own, Terms.of(plan.ends, batch, rules))

    def tensors(self) -> list[Tensor]:
        return [self.nodes_U, self.place_U, self.row_U, *self.terms]

    def at(self, tensors: Sequence[Tensor]) -> "DeviceBatch":
        """Return this batch with its tensors replaced by these copies, which may lie on another device."""
        nodes_U, place_U, row_U, *terms = tensors
        return DeviceBatch(nodes_U, place_U, row_U, self.own, Terms(*terms))


def record_terms(
    own_VLD: Tensor, borrowed_VLD: Tensor, clocks: Clocks, terms: Terms, rules: LayerRules
) -> None:
    """Replay a batch with torch operations, on any device: one sum for each layer of each receiver."""
    if not len(terms.place_U):
        return
    own_layers, borrowed_layers = own_VLD.flatten(0, 1), borrowed_VLD.flatten(0, 1)
    # 1. weigh
    factor_A = torch.exp((clocks.time_V[terms.place_A] - terms.now_A).mul_(terms.rate_A)).mul_(terms.weight_A)
    if clocks.keeps_degree:
        factor_A /= (clocks.degree_V[terms.place_A] * terms.divides_A).clamp_(min=1)
    # 2. add
    layers = own_layers
    if len(terms.from_borrowed):
        parts = (
            own_layers.index_select(0, terms.from_own),
            borrowed_layers.index_select(0, terms.from_borrowed),
        )
        layers = torch.cat(parts)
    new_TD = F.embedding_bag(
        terms.index_A, layers, terms.first_T, mode="sum", per_sample_weights=factor_A.to(layers.dtype)
    )
    # 3. write
    if clocks.keeps_degree:
        faded_U = torch.exp((clocks.time_V[terms.place_U] - terms.clock_U).mul_(rules.rate_W[0]))
        clocks.degree_V[terms.place_U] = faded_U.mul_(clocks.degree_V[terms.place_U]).add_(terms.gained_U)
    clocks.time_V[terms.place_U] = terms.clock_U
    to_own_TD, to_borrowed_TD = new_TD.split_with_sizes([len(terms.to_own_T), len(terms.to_borrowed_T)])
    if len(to_own_TD):
        own_layers.index_copy_(0, terms.to_own_T, to_own_TD)
    if len(to_borrowed_TD):
        borrowed_layers.index_copy_(0, terms.to_borrowed_T, to_borrowed_TD)


TermsRecorder = Callable[[Tensor, Tensor, Clocks, Terms, LayerRules], None]
"""Replays a batch on own and borrowed rows."""


def terms_recorder_for(device: torch.device, *, triton: bool) -> TermsRecorder:
    """Return the fastest form for a device."""
    if triton and triton_is_there(device):
        from tpnet_dist.memory.triton_record import record_terms_by_triton, trial

        if passes_trial(trial, device):
            return record_terms_by_triton
    return record_terms
