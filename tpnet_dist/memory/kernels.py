"""Record a batch in place: layers from the top, events in their order.

Layer l takes messages from layer l − 1, which no event of the batch has changed yet when layers are done from
the top. So every message sees the memory as it was before the batch, a batch may have any size, and nothing
is copied. Whoever computes a row computes all of it, message after message: its bits depend on its events
alone.

    1. weigh     clocks move to the nodes' last events; what each message weighs, what each row has faded by
    2. add       layer by layer: fade a row when the batch first touches it, add its messages

Rows lie in two tables, own and borrowed ones; place p ≥ 0 is own row p, p < 0 is borrowed row -1 - p. Clocks
lie in one array, those of borrowed rows counted from its end, as Python does.
`record_on_host` is compiled by numba and releases the interpreter, so it runs beside the model.
`record_on_device` does the same with torch operations on any device, for CUDA and as the reference in tests:
one program sums a row's messages in their order, so it is deterministic.

Shape letters: T distinct receivers of a batch, S timescales, X rows of a table, M terms of sums.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from tpnet_dist.memory.hash_index import clear_index, new_index, number_of
from tpnet_dist.memory.numba_tools import CACHE_LINE, compiled, fused, prefetch
from tpnet_dist.memory.walks import LayerRules

ENDS_AHEAD = 12
"""So many ends before its turn a row is prefetched; a batch then hardly waits for memory."""


@dataclass
class Clocks:
    """When each row had its last event; own rows, then borrowed ones, the first of them last. On the host."""

    time_X: npt.NDArray[np.float64]
    degree_X: npt.NDArray[np.float64]
    """Sum of the weights of the node's events on its clock; empty for walks that do not divide by it."""
    keeps_degree: bool

    @classmethod
    def zeros(cls, num_rows: int, *, with_degree: bool) -> "Clocks":
        return cls(np.zeros(num_rows), np.zeros(num_rows if with_degree else 0), with_degree)

    def columns(self) -> list[npt.NDArray[np.float64]]:
        """What there is of each row."""
        return [self.time_X, self.degree_X] if self.keeps_degree else [self.time_X]


class Ends(NamedTuple):
    """What is replayed, batch after batch: each end adds a message of its sender to its receiver."""

    receiver_E: npt.NDArray[np.int64]
    sender_E: npt.NDArray[np.int64]
    """Both as places."""
    hops_E: npt.NDArray[np.int8]
    """Layers of at most so many hops are replayed, the receiver's further ones being of no use here."""
    time_E: npt.NDArray[np.float64]
    border: npt.NDArray[np.int64]
    """Batch b has the ends border[b] … border[b + 1] - 1."""


class Factors(NamedTuple):
    """Of one batch: what each message weighs and each row has faded by, for each timescale. Reused for the
    next batch. The last three are of the batch's distinct receivers."""

    weight_ES: npt.NDArray[np.float64]
    """Of a message on layers of one hop."""
    step_ES: npt.NDArray[np.float64]
    """By which it is multiplied for each further hop."""
    fade_ES: npt.NDArray[np.float64]
    """For each hop, with a receiver's first message; else 1."""
    turn_E: npt.NDArray[np.int64]
    """Which of the distinct receivers an end has."""
    cells: npt.NDArray[np.int32]
    """A hash table of their places."""
    place_T: npt.NDArray[np.int64]
    clock_T: npt.NDArray[np.float64]
    """Of its last event of the batch."""
    silent_TS: npt.NDArray[np.float64]
    """Faded by for each hop since the event before."""

    @classmethod
    def room(cls, ends: Ends, batches: range, rules: LayerRules) -> "Factors":
        size = int(np.diff(ends.border[batches.start : batches.stop + 1]).max(initial=0))
        weight_ES, step_ES, fade_ES, silent_TS = np.empty((4, size, len(rules.rate_S)))
        turn_E, place_T = np.empty((2, size), np.int64)
        return cls(weight_ES, step_ES, fade_ES, turn_E, new_index(size), place_T, np.empty(size), silent_TS)


@compiled
def _weigh(ends, start, stop, clock_X, degree_X, rules, factors):
    """Fills the factors of a batch, and moves the clocks."""
    receiver_E, turn_E, clock_T = ends.receiver_E[start:stop], factors.turn_E, factors.clock_T
    sender_E, time_E, rate_S = ends.sender_E[start:stop], ends.time_E[start:stop], rules.rate_S
    num_ends, scales, count = stop - start, len(rate_S), 0
    clear_index(factors.cells)
    for e in range(num_ends):
        turn_E[e] = turn = number_of(receiver_E[e], factors.cells, factors.place_T, count)
        count += turn == count
        # times do not decrease, so a node's last one stays
        clock_T[turn] = time_E[e]
    for turn in range(count):
        silent = clock_T[turn] - clock_X[factors.place_T[turn]]
        for s in range(scales):
            factors.silent_TS[turn, s] = np.exp(-rate_S[s] * silent)
    count = 0
    for e in range(num_ends):
        turn, sender = turn_E[e], sender_E[e]
        is_first = turn == count
        count += is_first
        age, elapsed = clock_T[turn] - time_E[e], clock_T[turn] - clock_X[sender]
        # an event's ends lie side by side: mostly its sender is a receiver too, and was silent for as long
        other = -1
        if e > 0 and receiver_E[e - 1] == sender:
            other = turn_E[e - 1]
        elif e + 1 < num_ends and receiver_E[e + 1] == sender:
            other = turn_E[e + 1]
        is_known = other >= 0 and clock_T[other] == clock_T[turn]
        for s in range(scales):
            factors.weight_ES[e, s] = np.exp(-rate_S[s] * age) if age > 0 else 1.0
            factors.fade_ES[e, s] = factors.silent_TS[turn, s] if is_first else 1.0
            if rules.divides_by_degree:
                factors.step_ES[e, s] = 1 / max(degree_X[sender], 1.0)
            elif is_known:
                factors.step_ES[e, s] = factors.silent_TS[other, s]
            else:
                factors.step_ES[e, s] = np.exp(-rate_S[s] * elapsed)
    for turn in range(count):
        clock_X[factors.place_T[turn]] = clock_T[turn]
    if rules.divides_by_degree:
        for turn in range(count):
            degree_X[factors.place_T[turn]] *= factors.silent_TS[turn, 0]
        for e in range(num_ends):
            degree_X[receiver_E[e]] += factors.weight_ES[e, 0]


@compiled
def _further(factor, step, hop, divides):
    """A factor of one hop for layers of `hop` hops; degrees divide once, however many there are."""
    for _ in range(min(hop, 2) - 1 if divides else hop - 1):
        factor *= step
    return factor


@fused
def _record(own_XLD, borrowed_XLD, ends, first, stop, clock_X, degree_X, rules, factors):
    # the loops are written out: numba inlines no function of arrays, and a call costs more than a sum
    _, layers, width = own_XLD.shape
    line, number, divides = CACHE_LINE // own_XLD.itemsize, own_XLD.dtype.type, rules.divides_by_degree
    for batch in range(first, stop):
        start, end = ends.border[batch], ends.border[batch + 1]
        _weigh(ends, start, end, clock_X, degree_X, rules, factors)
        for layer in range(layers - 1, 0, -1):
            parent, hop, scale = rules.parent_L[layer], rules.hop_L[layer], rules.scale_L[layer]
            for e in range(start, end):
                if layer == layers - 1 and e + ENDS_AHEAD < end:
                    soon, its_sender = ends.receiver_E[e + ENDS_AHEAD], ends.sender_E[e + ENDS_AHEAD]
                    if soon >= 0:
                        for d in range(0, layers * width, line):
                            prefetch(own_XLD, (soon, 0, d))
                    else:
                        for d in range(0, layers * width, line):
                            prefetch(borrowed_XLD, (-1 - soon, 0, d))
                    # an own sender is the receiver of the event's other end
                    if its_sender < 0:
                        for d in range(0, layers * width, line):
                            prefetch(borrowed_XLD, (-1 - its_sender, 0, d))
                if ends.hops_E[e] < hop:
                    continue
                to, sender, i = ends.receiver_E[e], ends.sender_E[e], e - start
                to_D = own_XLD[to, layer] if to >= 0 else borrowed_XLD[-1 - to, layer]
                from_D = own_XLD[sender, parent] if sender >= 0 else borrowed_XLD[-1 - sender, parent]
                weight = number(
                    _further(factors.weight_ES[i, scale], factors.step_ES[i, scale], hop, divides)
                )
                fade_hop = factors.fade_ES[i, scale]
                if fade_hop != 1:
                    fade = number(_further(fade_hop, fade_hop, 1 if divides else hop, divides))
                    for d in range(width):
                        to_D[d] = to_D[d] * fade + weight * from_D[d]
                else:
                    for d in range(width):
                        to_D[d] += weight * from_D[d]


def is_compiled() -> bool:
    """Whether an earlier process has left the compiled kernel on disk; else the first batch waits for it."""
    return any(Path(_record.stats.cache_path).glob("kernels._record-*.nbi"))


def record_on_host(
    own_XLD: Tensor, borrowed_XLD: Tensor, ends: Ends, batches: range, clocks: Clocks, rules: LayerRules
) -> None:
    """Replay consecutive batches."""
    _record(
        *(own_XLD.numpy(), borrowed_XLD.numpy(), ends, batches.start, batches.stop),
        *(clocks.time_X, clocks.degree_X, rules, Factors.room(ends, batches, rules)),
    )


def record_on_device(
    own_XLD: Tensor, borrowed_XLD: Tensor, ends: Ends, batches: range, clocks: Clocks, rules: LayerRules
) -> None:
    """The same with torch operations, on any device: a sum of each receiver's terms for each layer."""
    for batch in batches:
        here = slice(ends.border[batch], ends.border[batch + 1])
        to_E, from_E, most_E = ends.receiver_E[here], ends.sender_E[here], ends.hops_E[here]
        factors = Factors.room(ends, range(batch, batch + 1), rules)
        _weigh(ends, here.start, here.stop, clocks.time_X, clocks.degree_X, rules, factors)
        for layer in range(len(rules.parent_L) - 1, 0, -1):
            hop, scale = rules.hop_L[layer], rules.scale_L[layer]
            further = min(hop - 1, 1) if rules.divides_by_degree else hop - 1
            weight_E = factors.weight_ES[:, scale] * factors.step_ES[:, scale] ** further
            fade_E = factors.fade_ES[:, scale] ** (1 if rules.divides_by_degree else hop)
            by_row = np.argsort(to_E, kind="stable")
            by_row = by_row[most_E[by_row] >= hop]
            to_T, first_T = np.unique(to_E[by_row], return_index=True)
            # a row's own layer, faded, comes before its messages
            place_M = np.insert(from_E[by_row], first_T, to_T)
            layer_M = np.insert(np.full(len(by_row), rules.parent_L[layer]), first_T, layer)
            weight_M = np.insert(weight_E[by_row], first_T, fade_E[by_row[first_T]])
            term_MD = _layers_at(own_XLD, borrowed_XLD, place_M, layer_M)
            new_TD = _bag_sums(term_MD, first_T + np.arange(len(to_T)), weight_M)
            for table_XLD, chosen_T, row_T in (
                (own_XLD, to_T >= 0, to_T),
                (borrowed_XLD, to_T < 0, -1 - to_T),
            ):
                rows, chosen = (
                    _on(own_XLD.device, each) for each in (row_T[chosen_T], np.flatnonzero(chosen_T))
                )
                table_XLD[:, layer].index_copy_(0, rows, new_TD[chosen])


def _layers_at(
    own_XLD: Tensor, borrowed_XLD: Tensor, place_M: npt.NDArray[np.int64], layer_M: npt.NDArray[np.int64]
) -> Tensor:
    """(M, D): one layer of each of these rows."""
    layers_MD = own_XLD.new_empty(len(place_M), own_XLD.shape[2])
    for table_XLD, chosen_M, row_M in (
        (own_XLD, place_M >= 0, place_M),
        (borrowed_XLD, place_M < 0, -1 - place_M),
    ):
        chosen, rows, layers = (
            _on(own_XLD.device, each)
            for each in (np.flatnonzero(chosen_M), row_M[chosen_M], layer_M[chosen_M])
        )
        layers_MD[chosen] = table_XLD[rows, layers]
    return layers_MD


def _bag_sums(term_MD: Tensor, first_T: npt.NDArray[np.int64], weight_M: npt.NDArray[np.float64]) -> Tensor:
    """(T, D): weighted sums of consecutive terms, made in their order."""
    return F.embedding_bag(
        torch.arange(len(term_MD), device=term_MD.device),
        term_MD,
        _on(term_MD.device, first_T),
        mode="sum",
        per_sample_weights=torch.from_numpy(weight_M).to(term_MD),
    )


def _on(device: torch.device, array: npt.NDArray[np.int64]) -> Tensor:
    return torch.from_numpy(array).to(device)
