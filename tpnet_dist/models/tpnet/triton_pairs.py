"""The inputs of pair features by one Triton kernel: rows are gathered, multiplied and scaled in one pass.

One program computes one pair: the L × L inner products of its two rows, both rows' products with themselves,
all times the factors that read the rows, and log(1 + ReLU(·)) of that. Plain operations write and read
everything between these steps, two gathered rows of L·D numbers for each pair above all.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.tpnet.pair_list import PairList, pair_inputs, slots_of

MOST_PRODUCTS = 4096
"""Products a program holds at once."""


@triton.jit
def _scaled(products, SCALE: tl.constexpr):
    if SCALE:
        kept = tl.maximum(products, 0.0)
        # log(1 + x) to the last bits of a small x too: what is lost in 1 + x is put back
        above = 1.0 + kept
        added = tl.where(above == 1.0, 1.0, above - 1.0)
        products = tl.where(above == 1.0, kept, tl.log(above) * (kept / added))
    return products


@triton.jit
def pair_kernel(
    inputs,
    rows,
    products,
    nodes,
    factors,
    first_slots,
    second_slots,
    width,
    LAYERS: tl.constexpr,
    ROOM: tl.constexpr,
    COLUMNS: tl.constexpr,
    SCALE: tl.constexpr,
):
    pair = tl.program_id(0).to(tl.int64)
    first, second = tl.load(first_slots + pair), tl.load(second_slots + pair)
    first_node, second_node = tl.load(nodes + first), tl.load(nodes + second)
    layer = tl.arange(0, ROOM)
    is_layer = layer < LAYERS
    first_factor = tl.load(factors + first * LAYERS + layer, mask=is_layer, other=0.0)
    second_factor = tl.load(factors + second * LAYERS + layer, mask=is_layer, other=0.0)

    first_row, second_row = rows + first_node * LAYERS * width, rows + second_node * LAYERS * width
    cross = tl.zeros((ROOM, ROOM), first_factor.dtype)
    for start in range(0, width, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        place = layer[:, None] * width + column[None, :]
        is_there = is_layer[:, None] & (column < width)[None, :]
        left = tl.load(first_row + place, mask=is_there, other=0.0)
        right = tl.load(second_row + place, mask=is_there, other=0.0)
        cross += tl.sum(left[:, None, :] * right[None, :, :], 2)

    place = layer[:, None] * LAYERS + layer[None, :]
    is_there = is_layer[:, None] & is_layer[None, :]
    size: tl.constexpr = LAYERS * LAYERS
    self_first = tl.load(products + first_node * size + place, mask=is_there, other=0.0)
    self_second = tl.load(products + second_node * size + place, mask=is_there, other=0.0)
    cross *= first_factor[:, None] * second_factor[None, :]
    self_first *= first_factor[:, None] * first_factor[None, :]
    self_second *= second_factor[:, None] * second_factor[None, :]
    out = inputs + pair * 3 * size + place
    tl.store(out, _scaled(cross, SCALE), mask=is_there)
    tl.store(out + size, _scaled(self_first, SCALE), mask=is_there)
    tl.store(out + 2 * size, _scaled(self_second, SCALE), mask=is_there)


def pair_inputs_by_triton(query: LinkBatch, pairs: PairList, *, scale: bool) -> Tensor:
    """Compute the MLP's inputs, (X, I), like `pair_inputs`."""
    rows_ULD, products_ULL = query.rows_ULD, query.products_ULL
    assert rows_ULD is not None and products_ULL is not None
    node_X, factors_XL = slots_of(query)
    num_pairs, (layers, width) = len(pairs.first_X), rows_ULD.shape[1:]
    inputs_XI = rows_ULD.new_empty(num_pairs, 3 * layers * layers)
    room = triton.next_power_of_2(layers)
    columns = max(16, min(triton.next_power_of_2(width), MOST_PRODUCTS // room**2))
    if num_pairs:
        with torch.cuda.device_of(rows_ULD):
            pair_kernel[(num_pairs,)](
                *(inputs_XI, rows_ULD.contiguous(), products_ULL.contiguous(), node_X),
                *(factors_XL, pairs.first_X, pairs.second_X, width),
                LAYERS=layers,
                ROOM=room,
                COLUMNS=columns,
                SCALE=scale,
            )
    return inputs_XI


def trial(device: torch.device) -> float:
    """Pair a few slots by both forms; return the largest difference, relative to the largest number."""
    nodes, layers, width, neighbors = 6, 4, 70, 3
    generator = torch.Generator().manual_seed(0)
    rows_ULD = torch.randn(nodes, layers, width, generator=generator)
    node_BSM = torch.randint(nodes, (2, 3, 1 + neighbors), generator=generator)
    factors_BSML = torch.rand(*node_BSM.shape, layers, generator=generator)
    mask_BSM = torch.ones(2, 3, neighbors, dtype=torch.bool)
    query = LinkBatch(
        ends_BS=node_BSM[..., 0].to(device),
        neighbors_BSM=node_BSM[..., 1:].to(device),
        neighbor_mask_BSM=mask_BSM,
        elapsed_BSM=torch.zeros(mask_BSM.shape, device=device),
        rows_ULD=rows_ULD.to(device),
        products_ULL=(rows_ULD @ rows_ULD.mT).to(device),
        end_factors_BSL=factors_BSML[:, :, 0].to(device),
        neighbor_factors_BSML=factors_BSML[:, :, 1:].to(device),
    )
    every_slot = torch.arange(2 * 2 * neighbors, device=device)
    pairs = PairList.of(every_slot[: 2 * neighbors], every_slot, mask_BSM.shape)
    wanted = pair_inputs(query, pairs, scale=True)
    found = pair_inputs_by_triton(query, pairs, scale=True)
    return float((found - wanted).abs().max() / wanted.abs().max())
