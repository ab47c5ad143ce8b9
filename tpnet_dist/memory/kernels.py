"""Record a batch in place: layers from the top, events in their order.

Layer l takes messages from layer l − 1, which no event of the batch has changed yet when layers are done from
the top. So every message sees the memory as it was before the batch, a batch may have any size, and nothing
is copied. Whoever computes a row computes all of it, message after message: its bits depend on its events
alone.

    1. weigh     clocks move to the nodes' last events; what each message weighs, what each row has faded by
    2. add       layer by layer: fade a row when the batch first touches it, add its messages

Rows lie in two tables, own and borrowed ones; place p ≥ 0 is own row p, p < 0 is borrowed row -1 - p. Clocks
lie in one array, those of borrowed rows counted from its end, as Python does.
`record_on_host` is compiled by numba and releases the interpreter, so it runs beside the model. The same for
other devices is in `device_batch`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tpnet_dist.memory.hash_index import clear_index, new_index, number_of
from tpnet_dist.memory.numba_tools import CACHE_LINE, compiled, fused, prefetch
from tpnet_dist.memory.walks import LayerRules

ENDS_AHEAD = 12
"""So many ends before its turn a row is prefetched; a batch then hardly waits for memory."""


def keep_until_used(tensor: Tensor) -> None:
    """Of a tensor that is let go: its memory may have come from another stream than the one that uses it."""
    if tensor.is_cuda:
        tensor.record_stream(torch.cuda.current_stream(tensor.device))


@dataclass
class Clocks:
    """When each row had its last event; own rows, then borrowed ones, the first of them last. They lie where
    rows do."""

    time_V: Tensor
    degree_V: Tensor
    """Sum of the weights of the node's events on its clock; empty for walks that do not divide by it."""
    keeps_degree: bool

    @classmethod
    def zeros(cls, num_rows: int, *, with_degree: bool, device: torch.device | str = "cpu") -> "Clocks":
        time_V = torch.zeros(num_rows, dtype=torch.float64, device=device)
        return cls(time_V, time_V.new_zeros(num_rows if with_degree else 0), with_degree)

    def columns(self) -> list[Tensor]:
        """What there is of each row."""
        return [self.time_V, self.degree_V] if self.keeps_degree else [self.time_V]

    def make_room(self, num_own: int, more: int) -> None:
        """For so many borrowed rows more."""
        for name in ("time_V", "degree_V")[: len(self.columns())]:
            old: Tensor = getattr(self, name)
            keep_until_used(old)
            setattr(self, name, torch.cat([old[:num_own], old.new_zeros(more), old[num_own:]]))


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
    """Holds what each message of a batch weighs and each row has faded by, for each timescale. Reused for the
    next batch. The last three are of the batch's distinct receivers."""

    weight_EW: npt.NDArray[np.float64]
    """Of a message on layers of one hop."""
    step_EW: npt.NDArray[np.float64]
    """By which it is multiplied for each further hop."""
    fade_EW: npt.NDArray[np.float64]
    """For each hop, with a receiver's first message; else 1."""
    turn_E: npt.NDArray[np.int64]
    """Which of the distinct receivers an end has."""
    cells: npt.NDArray[np.int32]
    """A hash table of their places."""
    place_U: npt.NDArray[np.int64]
    clock_U: npt.NDArray[np.float64]
    """Of its last event of the batch."""
    silent_UW: npt.NDArray[np.float64]
    """Faded by for each hop since the event before."""

    @classmethod
    def room(cls, ends: Ends, batches: range, rules: LayerRules) -> "Factors":
        size = int(np.diff(ends.border[batches.start : batches.stop + 1]).max(initial=0))
        weight_EW, step_EW, fade_EW, silent_UW = np.empty((4, size, len(rules.rate_W)))
        turn_E, place_U = np.empty((2, size), np.int64)
        return cls(weight_EW, step_EW, fade_EW, turn_E, new_index(size), place_U, np.empty(size), silent_UW)


@compiled
def _weigh(ends, start, stop, clock_V, degree_V, rules, factors):
    """Fills the factors of a batch, and moves the clocks."""
    receiver_E, turn_E, clock_U = ends.receiver_E[start:stop], factors.turn_E, factors.clock_U
    sender_E, time_E, rate_W = ends.sender_E[start:stop], ends.time_E[start:stop], rules.rate_W
    num_ends, scales, count = stop - start, len(rate_W), 0
    clear_index(factors.cells)
    for e in range(num_ends):
        turn_E[e] = turn = number_of(receiver_E[e], factors.cells, factors.place_U, count)
        count += turn == count
        # times do not decrease, so a node's last one stays
        clock_U[turn] = time_E[e]
    for turn in range(count):
        silent = clock_U[turn] - clock_V[factors.place_U[turn]]
        for s in range(scales):
            factors.silent_UW[turn, s] = np.exp(-rate_W[s] * silent)
    count = 0
    for e in range(num_ends):
        turn, sender = turn_E[e], sender_E[e]
        is_first = turn == count
        count += is_first
        age, elapsed = clock_U[turn] - time_E[e], clock_U[turn] - clock_V[sender]
        # an event's ends lie side by side: mostly its sender is a receiver too, and was silent for as long
        other = -1
        if e > 0 and receiver_E[e - 1] == sender:
            other = turn_E[e - 1]
        elif e + 1 < num_ends and receiver_E[e + 1] == sender:
            other = turn_E[e + 1]
        is_known = other >= 0 and clock_U[other] == clock_U[turn]
        for s in range(scales):
            factors.weight_EW[e, s] = np.exp(-rate_W[s] * age) if age > 0 else 1.0
            factors.fade_EW[e, s] = factors.silent_UW[turn, s] if is_first else 1.0
            if rules.divides_by_degree:
                factors.step_EW[e, s] = 1 / max(degree_V[sender], 1.0)
            elif is_known:
                factors.step_EW[e, s] = factors.silent_UW[other, s]
            else:
                factors.step_EW[e, s] = np.exp(-rate_W[s] * elapsed)
    for turn in range(count):
        clock_V[factors.place_U[turn]] = clock_U[turn]
    if rules.divides_by_degree:
        for turn in range(count):
            degree_V[factors.place_U[turn]] *= factors.silent_UW[turn, 0]
        for e in range(num_ends):
            degree_V[receiver_E[e]] += factors.weight_EW[e, 0]


@compiled
def _further(factor, step, hop, divides):
    """A factor of one hop for layers of `hop` hops; degrees divide once, however many there are."""
    for _ in range(min(hop, 2) - 1 if divides else hop - 1):
        factor *= step
    return factor


@fused
def _record(own_VLD, borrowed_VLD, ends, first, stop, clock_V, degree_V, rules, factors):
    # the loops are written out: numba inlines no function of arrays, and a call costs more than a sum
    _, layers, width = own_VLD.shape
    line, number, divides = CACHE_LINE // own_VLD.itemsize, own_VLD.dtype.type, rules.divides_by_degree
    for batch in range(first, stop):
        start, end = ends.border[batch], ends.border[batch + 1]
        _weigh(ends, start, end, clock_V, degree_V, rules, factors)
        for layer in range(layers - 1, 0, -1):
            parent, hop, scale = rules.parent_L[layer], rules.hop_L[layer], rules.scale_L[layer]
            for e in range(start, end):
                if layer == layers - 1 and e + ENDS_AHEAD < end:
                    soon, its_sender = ends.receiver_E[e + ENDS_AHEAD], ends.sender_E[e + ENDS_AHEAD]
                    if soon >= 0:
                        for d in range(0, layers * width, line):
                            prefetch(own_VLD, (soon, 0, d))
                    else:
                        for d in range(0, layers * width, line):
                            prefetch(borrowed_VLD, (-1 - soon, 0, d))
                    # an own sender is the receiver of the event's other end
                    if its_sender < 0:
                        for d in range(0, layers * width, line):
                            prefetch(borrowed_VLD, (-1 - its_sender, 0, d))
                if ends.hops_E[e] < hop:
                    continue
                to, sender, i = ends.receiver_E[e], ends.sender_E[e], e - start
                to_D = own_VLD[to, layer] if to >= 0 else borrowed_VLD[-1 - to, layer]
                from_D = own_VLD[sender, parent] if sender >= 0 else borrowed_VLD[-1 - sender, parent]
                weight = number(
                    _further(factors.weight_EW[i, scale], factors.step_EW[i, scale], hop, divides)
                )
                fade_hop = factors.fade_EW[i, scale]
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
    own_VLD: Tensor, borrowed_VLD: Tensor, ends: Ends, batches: range, clocks: Clocks, rules: LayerRules
) -> None:
    """Replay consecutive batches."""
    _record(
        *(own_VLD.numpy(), borrowed_VLD.numpy(), ends, batches.start, batches.stop),
        *(clocks.time_V.numpy(), clocks.degree_V.numpy(), rules, Factors.room(ends, batches, rules)),
    )
