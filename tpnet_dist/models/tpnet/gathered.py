"""Gathers what a batch reads by position, for devices and compilers: of computed neighbour slots, and of
pairs.

Nothing here is learnt, so nothing is kept for the backward pass. A compiler does not look in: how many rows a
batch has differs from batch to batch, and how many slots and pairs hardly, so what it compiles is of few
shapes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from tpnet_dist.device_forms import in_full_float32, passes_trial, triton_is_there
from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.tpnet.pair_list import PairList, pair_inputs
from tpnet_dist.models.tpnet.token_slots import TokenSlots


@dataclass(frozen=True)
class Gathered:
    """Inputs of the model that are the same whatever its weights are."""

    elapsed_A: Tensor
    """Elapsed times of the J slots of sources, then of the Y of destinations; the next two have the same
    order."""
    node_features_AF: Tensor | None
    edge_features_AF: Tensor | None
    pair_inputs_XI: Tensor | None
    """The MLP's inputs for pairs; None without memory."""

    @classmethod
    @torch.no_grad()
    def of(cls, query: LinkBatch, slots: TokenSlots, *, scale: bool, triton: bool) -> "Gathered":
        """Gather the inputs of a batch. `triton`: whether Triton's kernels may be used."""
        pairs = slots.pairs_of(query)
        chosen_A, nodes_UF, edges_BSMF = pairs.neighbor_A, query.node_features_UF, query.edge_features_BSMF
        return cls(
            query.elapsed_BSM.flatten()[chosen_A],
            None if nodes_UF is None else nodes_UF[query.neighbors_BSM.flatten()[chosen_A]],
            None if edges_BSMF is None else edges_BSMF.flatten(0, 2)[chosen_A],
            None if query.rows_ULD is None else _pair_inputs(query, pairs, scale=scale, triton=triton),
        )


def _pair_inputs(query: LinkBatch, pairs: PairList, *, scale: bool, triton: bool) -> Tensor:
    device = query.ends_BS.device
    if triton and triton_is_there(device):
        from tpnet_dist.models.tpnet.triton_pairs import pair_inputs_by_triton, trial

        if passes_trial(trial, device):
            return pair_inputs_by_triton(query, pairs, scale=scale)
    # norms reach 1e10: nothing is rounded
    with torch.autocast(device.type, enabled=False), in_full_float32():
        return pair_inputs(query, pairs, scale=scale)
