"""All pairs of a batch in one list, for devices where each operation has its price.

`pair_features` treats pairs by their kind, which saves the host work: a kind's pairs share one product, and a
slot's own products are scaled once. Here every pair stands for itself: its two slots, both of them positions
among the B·S ends followed by the B·S·M neighbour slots. So one operation, or one Triton kernel, serves all.

Pairs come in this order, X in all:

    J        neighbours of sources, each with its source
    J·C      the same with each destination
    Y·2      neighbours of destinations, with the source and with that destination
    B·C      the source with each destination
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tpnet_dist.models.common.loss import joined
from tpnet_dist.models.link_batch import LinkBatch

AT_ONCE = 2**16
"""Pairs whose rows are gathered at once: more than a training step has, less than ranking would."""


@dataclass(frozen=True)
class PairList:
    """The two slots of each pair."""

    neighbor_A: Tensor
    """The J slots of sources, then the Y of destinations, as positions in (B, S, M)."""
    first_X: Tensor
    second_X: Tensor

    @classmethod
    def of(cls, source_J: Tensor, target_Y: Tensor, shape_BSM: torch.Size) -> "PairList":
        """List the pairs; `source_J` and `target_Y` are as in `TokenSlots`."""
        B, S, M = shape_BSM
        device, C = source_J.device, S - 1
        source_J = source_J + source_J // M * (C * M)
        target_Y = target_Y + (target_Y // (C * M) + 1) * M
        target_C = torch.arange(1, S, device=device)
        source_B1 = torch.arange(0, B * S, S, device=device)[:, None]
        end_J, end_Y = source_J // M, target_Y // M
        first_J1, first_Y1 = source_J[:, None] + B * S, target_Y[:, None] + B * S
        first = (first_J1, first_J1.expand(-1, C), first_Y1.expand(-1, 2), source_B1.expand(-1, C))
        second = (
            *(end_J, end_J[:, None] + target_C),
            *(torch.stack([end_Y // S * S, end_Y], 1), source_B1 + target_C),
        )
        return cls(
            torch.cat([source_J, target_Y]),
            *(torch.cat([each.flatten() for each in either]) for either in (first, second)),
        )


def pair_products(query: LinkBatch, pairs: PairList) -> Tensor:
    """Return the products cross, self of the first, self of the second, as the slots read them: (X, 3, L,
    L)."""
    rows_ULD, products_ULL = query.rows_ULD, query.products_ULL
    assert rows_ULD is not None and products_ULL is not None
    node_X, factors_XL = slots_of(query)
    first_X, second_X = node_X[pairs.first_X], node_X[pairs.second_X]
    pieces = -(-len(first_X) // AT_ONCE) or 1
    cross = [
        torch.bmm(rows_ULD[first], rows_ULD[second].transpose(1, 2))
        for first, second in zip(first_X.chunk(pieces), second_X.chunk(pieces), strict=True)
    ]
    products = torch.stack([joined(cross), products_ULL[first_X], products_ULL[second_X]], 1)
    first_XL, second_XL = factors_XL[pairs.first_X], factors_XL[pairs.second_X]
    left_X3L = torch.stack([first_XL, first_XL, second_XL], 1)
    right_X3L = torch.stack([second_XL, first_XL, second_XL], 1)
    return products.mul_(left_X3L[..., None]).mul_(right_X3L[..., None, :])


def pair_inputs(query: LinkBatch, pairs: PairList, *, scale: bool) -> Tensor:
    """Return the MLP's inputs of pair features for every pair: (X, I)."""
    inputs_XI = pair_products(query, pairs).flatten(1)
    return torch.log1p(F.relu_(inputs_XI)) if scale else inputs_XI


def slots_of(query: LinkBatch) -> tuple[Tensor, Tensor]:
    """Return for ends, then for neighbour slots, the nodes and the factors that read their rows."""
    end_factors, neighbor_factors = query.end_factors_BSL, query.neighbor_factors_BSML
    assert end_factors is not None and neighbor_factors is not None
    node = torch.cat([query.ends_BS.flatten(), query.neighbors_BSM.flatten()])
    return node, torch.cat([end_factors.flatten(0, 1), neighbor_factors.flatten(0, 2)])
