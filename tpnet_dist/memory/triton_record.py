"""Record a batch by one Triton kernel for each layer, where `record_on_device` takes dozens of operations.

One program computes a part of the columns of one receiver's layer: it fades them and adds the messages in the
order of their events. So a row's bits depend on its events alone, in whichever table it lies. Layers are done
from the top, each by a launch of its own, since layer l reads layer l − 1 of other receivers.

What all launches of a run take travels in one copy. Batch after batch it holds, as 64-bit words

    U        receivers, as places
    U + 1    where the ends of each begin and the last one's stop
    E        senders, as places, receiver after receiver
    E        hops up to which each end is replayed
    L−1, E   weights of messages, layer by layer, float64
    L−1, E   factors that the receiver's layer has faded by before each message, float64
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import triton
import triton.language as tl
from torch import Tensor

from tpnet_dist.memory.kernels import Clocks, Ends, Factors, record_on_device, weigh
from tpnet_dist.memory.walks import LayerRules

MOST_COLUMNS = 256
"""Columns of one program."""
VARYING = ("start", "receivers", "ends", "layer", "parent", "hop")


@dataclass(frozen=True)
class PackedBatch:
    """Where a batch's words begin, and how many receivers and ends it has."""

    start: int
    receivers: int
    ends: int


# what varies from batch to batch is not to be compiled anew for numbers that 16 divides
@triton.jit(do_not_specialize=VARYING)
def record_layer(
    own,
    borrowed,
    words,
    start,
    receivers,
    ends,
    layer,
    parent,
    hop,
    layers,
    width,
    COLUMNS: tl.constexpr,
):
    turn = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = column < width
    first = words + start + receivers
    sender = first + receivers + 1
    most_hops = sender + ends
    weight = most_hops + ends + (layer - 1) * ends
    fade = weight + (layers - 1) * ends

    to = tl.load(words + start + turn)
    to_row = tl.where(to >= 0, own + to * layers * width, borrowed + (-1 - to) * layers * width)
    to_layer = to_row + layer * width + column
    total = tl.load(to_layer, mask=is_column, other=0.0)
    for end in range(tl.load(first + turn), tl.load(first + turn + 1)):
        # layers beyond those that are replayed may hold anything, and are not read
        if tl.load(most_hops + end) >= hop:
            place = tl.load(sender + end)
            row = tl.where(place >= 0, own + place * layers * width, borrowed + (-1 - place) * layers * width)
            message = tl.load(row + parent * width + column, mask=is_column, other=0.0)
            faded_by = tl.load(fade + end).to(tl.float64, bitcast=True).to(total.dtype)
            weighs = tl.load(weight + end).to(tl.float64, bitcast=True).to(total.dtype)
            total = total * faded_by + weighs * message
    tl.store(to_layer, total, mask=is_column)


def record_by_triton(
    own_VLD: Tensor, borrowed_VLD: Tensor, ends: Ends, batches: range, clocks: Clocks, rules: LayerRules
) -> None:
    """Replay consecutive batches."""
    _, layers, width = own_VLD.shape
    packed, words = _packed(ends, batches, clocks, rules)
    if not packed:
        return
    words_on_device = torch.from_numpy(words).to(own_VLD.device, non_blocking=True)
    columns = min(MOST_COLUMNS, triton.next_power_of_2(width))
    # the thread's current device may be another one
    with torch.cuda.device_of(own_VLD):
        for batch in packed:
            for layer in range(layers - 1, 0, -1):
                record_layer[(batch.receivers, triton.cdiv(width, columns))](
                    *(own_VLD, borrowed_VLD, words_on_device, batch.start, batch.receivers, batch.ends),
                    *(layer, int(rules.parent_L[layer]), int(rules.hop_L[layer]), layers, width),
                    COLUMNS=columns,
                )


def _packed(
    ends: Ends, batches: range, clocks: Clocks, rules: LayerRules
) -> tuple[list[PackedBatch], npt.NDArray[np.int64]]:
    """Batches that have ends, and the words of all of them. Moves the clocks."""
    packed: list[PackedBatch] = []
    words: list[npt.NDArray[np.int64]] = []
    factors, start = Factors.room(ends, batches, rules), 0
    for batch in batches:
        here = slice(ends.border[batch], ends.border[batch + 1])
        to_E, num_ends = ends.receiver_E[here], int(here.stop - here.start)
        if not num_ends:
            continue
        weigh(ends, here.start, here.stop, clocks.time_V, clocks.degree_V, rules, factors)
        by_row = np.argsort(to_E, kind="stable")
        to_U, first_U = np.unique(to_E[by_row], return_index=True)
        factors_LE = np.concatenate(_of_layers(factors, by_row, rules))
        parts = (to_U, first_U, [num_ends], ends.sender_E[here][by_row], ends.hops_E[here][by_row])
        words += [np.asarray(part, np.int64) for part in parts] + [factors_LE.view(np.int64).ravel()]
        packed.append(PackedBatch(start, len(to_U), num_ends))
        start += 2 * len(to_U) + 1 + (2 + len(factors_LE)) * num_ends
    return packed, np.concatenate(words) if words else np.empty(0, np.int64)


def _of_layers(
    factors: Factors, by_row: npt.NDArray[np.int64], rules: LayerRules
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Weights of messages and factors of fading for layers 1, 2, …, each (L − 1, E)."""
    hop_L1, scale_L = rules.hop_L[1:, None], rules.scale_L[1:]
    weight_LE, step_LE, fade_LE = (
        each[by_row][:, scale_L].T for each in (factors.weight_EW, factors.step_EW, factors.fade_EW)
    )
    if rules.divides_by_degree:
        return weight_LE * step_LE ** np.minimum(hop_L1 - 1, 1), np.ascontiguousarray(fade_LE)
    return weight_LE * step_LE ** (hop_L1 - 1), fade_LE**hop_L1


def trial(device: torch.device) -> float:
    """Record a few events by both forms; return the largest difference, relative to the largest number."""
    generator, nodes, layers = torch.Generator().manual_seed(0), 6, 4
    rows_VLD = torch.randn(nodes, layers, 300, generator=generator).to(device)
    place = np.array([0, 1, 2, 2, 1, 0, -1, 1, 1, -1, -2, -2, 0, 3, 3, 0])
    ends = Ends(
        place,
        place.reshape(-1, 2)[:, ::-1].ravel().copy(),
        np.full(len(place), layers - 1, np.int8),
        np.repeat(np.arange(len(place) / 2), 2),
        np.array([0, 10, len(place)]),
    )
    hop_L = np.arange(layers)
    rules = LayerRules(np.maximum(hop_L - 1, 0), hop_L, np.zeros_like(hop_L), np.array([0.1]), False)
    recorded = []
    for record in (record_by_triton, record_on_device):
        own, borrowed = rows_VLD[:4].clone(), rows_VLD[4:].clone()
        record(own, borrowed, ends, range(2), Clocks.zeros(nodes, with_degree=False), rules)
        recorded.append(torch.cat([own, borrowed]))
    return float((recorded[0] - recorded[1]).abs().max() / recorded[1].abs().max())
