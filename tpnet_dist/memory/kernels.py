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

Shape letters: E ends of a batch's events that are replayed here, L layers, D width, X rows of a table.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from tpnet_dist.memory.compiled import CACHE_LINE, compiled, fused, prefetch
from tpnet_dist.memory.node_index import clear_index, new_index, number_of
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


@dataclass(frozen=True)
class Ends:
    """What is replayed, batch after batch: each end adds a message of its sender to its receiver."""

    receiver_E: npt.NDArray[np.int64]
    sender_E: npt.NDArray[np.int64]
    """Both as places."""
    hops_E: npt.NDArray[np.int8]
    """Layers of at most so many hops are replayed, the receiver's further ones being of no use here."""
    time_E: npt.NDArray[np.float64]
    border: npt.NDArray[np.int64]
    """Batch b has the ends border[b] … border[b + 1] - 1."""


class Weights:
    """Room for what the messages of one batch weigh; reused for batch after batch."""

    def __init__(self, ends: Ends, batches: range, num_layers: int, dtype: npt.DTypeLike) -> None:
        size = int(np.diff(ends.border[batches.start : batches.stop + 1]).max(initial=0))
        self.weight_EL, self.fade_EL = (
            np.empty((size, num_layers), dtype),
            np.empty((size, num_layers), dtype),
        )
        self.numbers_3E, self.times_2E = np.empty((3, size), np.int64), np.empty((2, size))
        self.index, self.factors_2L = new_index(size), np.ones((2, num_layers))

    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        return self.weight_EL, self.fade_EL, self.numbers_3E, self.times_2E, self.index, self.factors_2L


@compiled
def _weigh(
    receiver_E, sender_E, time_E, start, stop, clock_X, degree_X, parent_L, rate_L, divides,
    weight_EL, fade_EL, numbers_3E, times_2E, index, factors_2L,
):  # fmt: skip
    """Of each message its weight on each layer; with each receiver's first one, what its layers have faded
    by, else 1. Moves the clocks."""
    place_T, first_T, turn_E = numbers_3E[0], numbers_3E[1], numbers_3E[2]
    clock_T, gain_T, weight_L, step_L = times_2E[0], times_2E[1], factors_2L[0], factors_2L[1]
    layers, count = len(parent_L), 0
    clear_index(index)
    for i in range(stop - start):
        place = receiver_E[start + i]
        prefetch(clock_X, (place if place >= 0 else len(clock_X) + place,))
        turn = number_of(place, index, place_T, count)
        if turn == count:
            first_T[turn], gain_T[turn] = i, 0.0
            count += 1
        # times do not decrease, so a node's last one stays
        clock_T[turn], turn_E[i] = time_E[start + i], turn
    for i in range(stop - start):
        turn, sender = turn_E[i], sender_E[start + i]
        age, elapsed = clock_T[turn] - time_E[start + i], clock_T[turn] - clock_X[sender]
        # along the layers that read one another, each hop adds a factor
        for layer in range(1, layers):
            parent, rate = parent_L[layer], rate_L[layer]
            if parent == 0:
                weight_L[layer] = np.exp(-rate * age) if age > 0 else 1.0
                step_L[layer] = 1 / max(degree_X[sender], 1.0) if divides else np.exp(-rate * elapsed)
            elif divides:
                weight_L[layer] = weight_L[1] * step_L[1]
            else:
                step_L[layer] = step_L[parent]
                weight_L[layer] = weight_L[parent] * step_L[layer]
            weight_EL[i, layer], fade_EL[i, layer] = weight_L[layer], 1
        gain_T[turn] += weight_L[1]
    for turn in range(count):
        place, silent = place_T[turn], clock_T[turn] - clock_X[place_T[turn]]
        for layer in range(1, layers):
            parent = parent_L[layer]
            step_L[layer] = np.exp(-rate_L[layer] * silent) if parent == 0 else step_L[parent]
            weight_L[layer] = step_L[layer] * (1.0 if parent == 0 or divides else weight_L[parent])
            fade_EL[first_T[turn], layer] = weight_L[layer]
        if divides:
            degree_X[place] = degree_X[place] * step_L[1] + gain_T[turn]
        clock_X[place] = clock_T[turn]


@fused
def _add(to_XLD, to, layer, fade, from_XLD, sender, parent, weight):
    if fade != 1:
        for d in range(to_XLD.shape[2]):
            to_XLD[to, layer, d] = to_XLD[to, layer, d] * fade + weight * from_XLD[sender, parent, d]
    else:
        for d in range(to_XLD.shape[2]):
            to_XLD[to, layer, d] += weight * from_XLD[sender, parent, d]


@compiled
def _record(
    own_XLD, borrowed_XLD, receiver_E, sender_E, hops_E, time_E, border, first, stop,
    clock_X, degree_X, parent_L, hop_L, rate_L, divides,
    weight_EL, fade_EL, numbers_3E, times_2E, index, factors_2L,
):  # fmt: skip
    width, line = own_XLD.shape[2], CACHE_LINE // own_XLD.itemsize
    for batch in range(first, stop):
        start, end = border[batch], border[batch + 1]
        _weigh(
            receiver_E, sender_E, time_E, start, end, clock_X, degree_X, parent_L, rate_L, divides,
            weight_EL, fade_EL, numbers_3E, times_2E, index, factors_2L,
        )  # fmt: skip
        for layer in range(len(parent_L) - 1, 0, -1):
            parent = parent_L[layer]
            for e in range(start, end):
                if layer == len(parent_L) - 1 and e + ENDS_AHEAD < end:
                    # written out: as functions they are not inlined, and cost more than they spare
                    soon, its_sender = receiver_E[e + ENDS_AHEAD], sender_E[e + ENDS_AHEAD]
                    for of_row in range(len(parent_L)):
                        for d in range(0, width, line):
                            if soon >= 0:
                                prefetch(own_XLD, (soon, of_row, d))
                            else:
                                prefetch(borrowed_XLD, (-1 - soon, of_row, d))
                            # an own sender is the receiver of the event's other end
                            if its_sender < 0:
                                prefetch(borrowed_XLD, (-1 - its_sender, of_row, d))
                if hops_E[e] < hop_L[layer]:
                    continue
                to, sender = receiver_E[e], sender_E[e]
                weight, fade = weight_EL[e - start, layer], fade_EL[e - start, layer]
                if to >= 0 and sender >= 0:
                    _add(own_XLD, to, layer, fade, own_XLD, sender, parent, weight)
                elif to >= 0:
                    _add(own_XLD, to, layer, fade, borrowed_XLD, -1 - sender, parent, weight)
                elif sender >= 0:
                    _add(borrowed_XLD, -1 - to, layer, fade, own_XLD, sender, parent, weight)
                else:
                    _add(borrowed_XLD, -1 - to, layer, fade, borrowed_XLD, -1 - sender, parent, weight)


def is_compiled() -> bool:
    """Whether an earlier process has left the compiled kernel on disk; else the first batch waits for it."""
    return any(Path(_record.stats.cache_path).glob("kernels._record-*.nbi"))


def record_on_host(
    own_XLD: Tensor, borrowed_XLD: Tensor, ends: Ends, batches: range, clocks: Clocks, rules: LayerRules
) -> None:
    """Replay consecutive batches."""
    rows, others = own_XLD.numpy(), borrowed_XLD.numpy()
    weights = Weights(ends, batches, len(rules.hop_L), rows.dtype)
    _record(
        rows, others, ends.receiver_E, ends.sender_E, ends.hops_E, ends.time_E,
        ends.border, batches.start, batches.stop, clocks.time_X, clocks.degree_X, *rules, *weights.arrays(),
    )  # fmt: skip


def record_on_device(
    own_XLD: Tensor, borrowed_XLD: Tensor, ends: Ends, batches: range, clocks: Clocks, rules: LayerRules
) -> None:
    """The same with torch operations, on any device: a sum of each receiver's terms for each layer."""
    for batch in batches:
        here = slice(ends.border[batch], ends.border[batch + 1])
        to_E, from_E, most_E = ends.receiver_E[here], ends.sender_E[here], ends.hops_E[here]
        weights = Weights(ends, range(batch, batch + 1), len(rules.hop_L), np.float64)
        _weigh(
            ends.receiver_E, ends.sender_E, ends.time_E, here.start, here.stop,
            clocks.time_X, clocks.degree_X, rules.parent_L, rules.rate_L, rules.divides_by_degree,
            *weights.arrays(),
        )  # fmt: skip
        weight_EL, fade_EL = weights.weight_EL, weights.fade_EL
        for layer in range(len(rules.parent_L) - 1, 0, -1):
            by_row = np.argsort(to_E, kind="stable")
            by_row = by_row[most_E[by_row] >= rules.hop_L[layer]]
            to_T, first_T = np.unique(to_E[by_row], return_index=True)
            # a row's own layer, faded, comes before its messages
            place_M = np.insert(from_E[by_row], first_T, to_T)
            layer_M = np.insert(np.full(len(by_row), rules.parent_L[layer]), first_T, layer)
            weight_M = np.insert(weight_EL[by_row, layer], first_T, fade_EL[by_row[first_T], layer])
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
