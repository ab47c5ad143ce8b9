"""Record a batch by three Triton kernels, where `record_terms` takes many more operations.

    1. weigh     one factor for each term
    2. add       one program for a part of the columns of each sum: its terms in the order of their events,
                 each read where it lies; beside them the receivers' clocks move
    3. write     the sums to their layers, which no term is read from any more

A sum's bits depend on its terms alone, in whichever table they lie.
"""

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from tpnet_dist.memory.device_batch import Terms, record_terms
from tpnet_dist.memory.kernels import Clocks, Ends
from tpnet_dist.memory.walks import LayerRules

MOST_COLUMNS = 256
"""The most columns of one program."""
TERMS = 128
"""Terms that one program weighs."""
COUNTS = ("rows", "terms", "sums", "receivers", "own_terms", "own_sums")


# counts differ from batch to batch: nothing is compiled anew for those that 16 divides
@triton.jit(do_not_specialize=COUNTS)
def weigh_terms(
    factors,
    clocks,
    degrees,
    places,
    weights,
    rates,
    nows,
    divides,
    rows,
    terms,
    TERMS: tl.constexpr,
    DIVIDES: tl.constexpr,
):
    term = tl.program_id(0) * TERMS + tl.arange(0, TERMS)
    is_term = term < terms
    place = tl.load(places + term, mask=is_term, other=0)
    # borrowed rows are counted from the end
    place = tl.where(place < 0, place + rows, place)
    silent = tl.load(clocks + place, mask=is_term, other=0.0) - tl.load(nows + term, mask=is_term, other=0.0)
    rate = tl.load(rates + term, mask=is_term, other=0.0)
    factor = tl.exp(silent * rate) * tl.load(weights + term, mask=is_term, other=0.0)
    if DIVIDES:
        degree = tl.load(degrees + place, mask=is_term, other=1.0)
        factor /= tl.maximum(degree * tl.load(divides + term, mask=is_term, other=0.0), 1.0)
    tl.store(factors + term, factor, mask=is_term)


@triton.jit(do_not_specialize=COUNTS)
def add_terms(
    new,
    own,
    borrowed,
    factors,
    indices,
    own_layers,
    borrowed_layers,
    firsts,
    clocks,
    degrees,
    receiver_places,
    new_clocks,
    gains,
    rate,
    rows,
    terms,
    sums,
    receivers,
    own_terms,
    width,
    COLUMNS: tl.constexpr,
    GATHERED: tl.constexpr,
    DIVIDES: tl.constexpr,
):
    turn = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = column < width
    if turn < sums:
        total = tl.zeros((COLUMNS,), new.dtype.element_ty)
        stop = terms
        if turn + 1 < sums:
            stop = tl.load(firsts + turn + 1).to(tl.int32)
        for term in range(tl.load(firsts + turn).to(tl.int32), stop):
            index = tl.load(indices + term)
            layer = own + index * width
            if GATHERED:
                if index < own_terms:
                    layer = own + tl.load(own_layers + index) * width
                else:
                    layer = borrowed + tl.load(borrowed_layers + index - own_terms) * width
            factor = tl.load(factors + term).to(total.dtype)
            total += factor * tl.load(layer + column, mask=is_column, other=0.0)
        tl.store(new + turn.to(tl.int64) * width + column, total, mask=is_column)
    if turn < receivers and tl.program_id(1) == 0:
        place = tl.load(receiver_places + turn)
        if place < 0:
            place += rows
        clock = tl.load(new_clocks + turn)
        if DIVIDES:
            faded = tl.exp((tl.load(clocks + place) - clock) * rate) * tl.load(degrees + place)
            tl.store(degrees + place, faded + tl.load(gains + turn))
        tl.store(clocks + place, clock)


@triton.jit(do_not_specialize=COUNTS)
def write_sums(new, own, borrowed, to_own, to_borrowed, own_sums, width, COLUMNS: tl.constexpr):
    turn = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = column < width
    total = tl.load(new + turn.to(tl.int64) * width + column, mask=is_column, other=0.0)
    if turn < own_sums:
        tl.store(own + tl.load(to_own + turn) * width + column, total, mask=is_column)
    else:
        tl.store(borrowed + tl.load(to_borrowed + turn - own_sums) * width + column, total, mask=is_column)


def record_terms_by_triton(
    own_VLD: Tensor, borrowed_VLD: Tensor, clocks: Clocks, terms: Terms, rules: LayerRules
) -> None:
    """Replay a batch, as `record_terms`."""
    num_receivers, num_terms, num_sums = len(terms.place_U), len(terms.place_A), len(terms.first_T)
    if not num_receivers:
        return
    width, num_rows, divides = own_VLD.shape[2], len(clocks.time_V), clocks.keeps_degree
    columns = min(MOST_COLUMNS, triton.next_power_of_2(width))
    parts, is_gathered = triton.cdiv(width, columns), len(terms.from_borrowed) > 0
    factor_A, new_TD = torch.empty_like(terms.weight_A), own_VLD.new_empty(num_sums, width)
    # a kernel that does not read something gets something else: interpreters take no empty tensors
    tables = (_filled(own_VLD, borrowed_VLD), _filled(borrowed_VLD, own_VLD))
    degrees = clocks.degree_V if divides else clocks.time_V
    with torch.cuda.device_of(own_VLD):
        if num_terms:
            weigh_terms[(triton.cdiv(num_terms, TERMS),)](
                *(factor_A, clocks.time_V, degrees, terms.place_A, terms.weight_A, terms.rate_A, terms.now_A),
                *(terms.divides_A if divides else terms.now_A, num_rows, num_terms),
                TERMS=TERMS,
                DIVIDES=divides,
            )
        add_terms[(max(num_sums, num_receivers), parts)](
            *(_filled(new_TD, own_VLD), *tables, factor_A, terms.index_A),
            *(
                (_filled(terms.from_own, terms.index_A), terms.from_borrowed)
                if is_gathered
                else 2 * (terms.index_A,)
            ),
            *(terms.first_T, clocks.time_V, degrees, terms.place_U, terms.clock_U),
            *(terms.gained_U if divides else terms.clock_U, float(rules.rate_W[0]), num_rows, num_terms),
            *(num_sums, num_receivers, len(terms.from_own), width),
            COLUMNS=columns,
            GATHERED=is_gathered,
            DIVIDES=divides,
        )
        if num_sums:
            to_own_T, to_borrowed_T = terms.to_own_T, terms.to_borrowed_T
            write_sums[(num_sums, parts)](
                *(new_TD, *tables, _filled(to_own_T, to_borrowed_T), _filled(to_borrowed_T, to_own_T)),
                *(len(to_own_T), width),
                COLUMNS=columns,
            )


def _filled(wanted: Tensor, other: Tensor) -> Tensor:
    return wanted if wanted.numel() else other


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
    for record in (record_terms_by_triton, record_terms):
        own, borrowed = rows_VLD[:4].clone(), rows_VLD[4:].clone()
        clocks = Clocks.zeros(nodes, with_degree=False, device=device)
        for batch in range(2):
            on_device = Terms(*(column.to(device) for column in Terms.of(ends, batch, rules)))
            record(own, borrowed, clocks, on_device, rules)
        recorded.append(torch.cat([own, borrowed]))
    return float((recorded[0] - recorded[1]).abs().max() / recorded[1].abs().max())
