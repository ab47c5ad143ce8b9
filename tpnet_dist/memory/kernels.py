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
"""The number of ends by which a row is prefetched before its turn; a batch then hardly waits for memory."""


def keep_until_used(tensor: Tensor) -> None:
    """Keep a tensor's memory, once it is let go, until the current stream has used it: it may be another
    stream's."""
    if tensor.is_cuda:
        tensor.record_stream(torch.cuda.current_stream(tensor.device))


@dataclass
class Clocks:
    """The time of each row's last event: own rows, then borrowed ones, the first of them last. Clocks lie on
    the device of the rows."""

    time_V: Tensor
    degree_V: Tensor
    """Sum of the weights of the node's events on its clock; empty for walks that do not divide by it."""
    keeps_degree: bool

    @classmethod
    def zeros(cls, num_rows: int, *, with_degree: bool, device: torch.device | str = "cpu") -> "Clocks":
        time_V = torch.zeros(num_rows, dtype=torch.float64, device=device)
        return cls(time_V, time_V.new_zeros(num_rows if with_degree else 0), with_degree)

    def columns(self) -> list[Tensor]:
        """Return what is kept of each row."""
        return [self.time_V, self.degree_V] if self.keeps_degree else [self.time_V]

    def make_room(self, num_own: int, more: int) -> None:
        """Add clocks for `more` borrowed rows."""
        for name in ("time_V", "degree_V")[: len(self.columns())]:
            old: Tensor = getattr(self, name)
            keep_until_used(old)
            setattr(self, name, torch.cat([old[:num_own], old.new_zeros(more), old[num_own:]]))


class Ends(NamedTuple):
    """What is replayed, batch after batch: each end adds a message of its sender to its receiver."""

    receiver_E: npt.NDArray[np.int64]
    sender_E: npt.NDArray[np.int64]
    """Receivers and senders are places of rows."""
    hops_E: npt.NDArray[np.int8]
    """Layers of at most so many hops are replayed, the receiver's further ones being of no use here."""
    time_E: npt.NDArray[np.float64]
    border: npt.NDArray[np.int64]
    """Batch b has the ends border[b] … border[b + 1] - 1."""


class Factors(NamedTuple):
    """What each message of some batches weighs and each row has faded by, for each timescale."""

    weight_EW: npt.NDArray[np.float64]
    """The weight of a message on layers of one hop."""
    step_EW: npt.NDArray[np.float64]
    """The factor by which the weight is multiplied for each further hop."""
    fade_EW: npt.NDArray[np.float64]
    """The factor by which the receiver's row fades for each hop, at its first message of a batch; else 1."""


def _weigh(ends: Ends, batches: range, clocks: Clocks, rules: LayerRules) -> Factors:
    """Move the clocks, and return the factors of the batches. numpy takes all exponentials at once: one by
    one they cost as much as the sums."""
    border = ends.border[batches.start : batches.stop + 1]
    age_E, elapsed_E, silent_E = np.empty((3, border[-1] - border[0]))
    most = int(np.diff(border).max(initial=0))
    turn_E, place_U = np.empty((2, most), np.int64)
    clock_U, cells = np.empty(most), new_index(most)
    _move_clocks(
        ends, border, clocks.time_V.numpy(), age_E, elapsed_E, silent_E, turn_E, place_U, clock_U, cells
    )
    weight_EW, fade_EW = (np.exp(times_E[:, None] * -rules.rate_W) for times_E in (age_E, silent_E))
    if not rules.divides_by_degree:
        return Factors(weight_EW, np.exp(elapsed_E[:, None] * -rules.rate_W), fade_EW)
    step_EW = np.empty_like(weight_EW)
    _move_degrees(ends, border, clocks.degree_V.numpy(), weight_EW, step_EW, fade_EW)
    return Factors(weight_EW, step_EW, fade_EW)


@compiled
def _move_clocks(ends, border, clock_V, age_E, elapsed_E, silent_E, turn_E, place_U, clock_U, cells):
    """Find for each end how long before its receiver's new clock it happened, how long before that the
    sender's clock stood, and, at the receiver's first message of a batch, how long the receiver was
    silent."""
    for batch in range(len(border) - 1):
        start, stop, count = border[batch], border[batch + 1], 0
        clear_index(cells)
        for e in range(start, stop):
            turn = number_of(ends.receiver_E[e], cells, place_U, count)
            turn_E[e - start] = turn
            count += turn == count
            # times do not decrease, so a node's last one stays
            clock_U[turn] = ends.time_E[e]
        count = 0
        for e in range(start, stop):
            turn, i = turn_E[e - start], e - border[0]
            now = clock_U[turn]
            age_E[i], elapsed_E[i], silent_E[i] = now - ends.time_E[e], now - clock_V[ends.sender_E[e]], 0
            if turn == count:
                silent_E[i] = now - clock_V[place_U[turn]]
                count += 1
        for turn in range(count):
            clock_V[place_U[turn]] = clock_U[turn]


@compiled
def _move_degrees(ends, border, degree_V, weight_EW, step_EW, fade_EW):
    """Move the degrees, and find the factors of further hops: a sender's degree divides as it was before the
    batch."""
    for batch in range(len(border) - 1):
        for e in range(border[batch], border[batch + 1]):
            step_EW[e - border[0], 0] = 1 / max(degree_V[ends.sender_E[e]], 1.0)
        for e in range(border[batch], border[batch + 1]):
            i, receiver = e - border[0], ends.receiver_E[e]
            degree_V[receiver] = degree_V[receiver] * fade_EW[i, 0] + weight_EW[i, 0]


@compiled
def _further(factor, step, hop, divides):
    """Return a factor of one hop for layers of `hop` hops; degrees divide once, however many there are."""
    for _ in range(min(hop, 2) - 1 if divides else hop - 1):
        factor *= step
    return factor


@fused
def _record(own_VLD, borrowed_VLD, ends, first, stop, rules, factors):
    # the loops are written out: numba inlines no function of arrays, and a call costs more than a sum
    _, layers, width = own_VLD.shape
    line, number, divides = CACHE_LINE // own_VLD.itemsize, own_VLD.dtype.type, rules.divides_by_degree
    for batch in range(first, stop):
        start, end = ends.border[batch], ends.border[batch + 1]
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
                to, sender, i = ends.receiver_E[e], ends.sender_E[e], e - ends.border[first]
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
    """Return whether an earlier process has left the compiled kernel on disk; else the first batch waits for
    it."""
    return any(Path(_record.stats.cache_path).glob("kernels._record-*.nbi"))


def record_on_host(
    own_VLD: Tensor, borrowed_VLD: Tensor, ends: Ends, batches: range, clocks: Clocks, rules: LayerRules
) -> None:
    """Replay consecutive batches."""
    factors = _weigh(ends, batches, clocks, rules)
    _record(own_VLD.numpy(), borrowed_VLD.numpy(), ends, batches.start, batches.stop, rules, factors)
