"""Small random queries and models for tests of the model."""

from typing import Any

import torch
from torch import Tensor

from tpnet_dist.models.common.dropout import event_keys
from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.tpnet.model import TPNet

SIZES = {"neighbors": 6, "time_width": 8, "channels": 12}


def random_model(*, dropout: float = 0.0, **options: Any) -> TPNet:
    torch.manual_seed(1)
    return TPNet(**SIZES, dropout=dropout, **options)


def random_query(
    *,
    events: int = 7,
    targets: int = 2,
    hops: int = 3,
    node_width: int = 0,
    edge_width: int = 0,
    use_memory: bool = True,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> LinkBatch:
    """Some ends have no neighbour at all, some all; node 0 is the padding node."""
    random = torch.Generator().manual_seed(seed)
    nodes, width, ends, slots = 30, 9, 1 + targets, SIZES["neighbors"]

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=random, dtype=torch.float64).to(dtype)

    degrees_BS = torch.randint(0, slots + 2, (events, ends), generator=random)
    mask_BSM = torch.arange(slots, 0, -1) <= degrees_BS[..., None]
    neighbors_BSM = torch.randint(1, nodes, (events, ends, slots), generator=random) * mask_BSM
    elapsed_BSM = torch.where(mask_BSM, 1e5 * uniform(events, ends, slots), 1e6)
    rows_ULD = (uniform(nodes, hops + 1, width) - 0.4) * 3.0 ** torch.arange(hops + 1)[:, None]
    rows_ULD[0, 1:] = 0
    return LinkBatch(
        ends_BS=torch.randint(1, nodes, (events, ends), generator=random),
        neighbors_BSM=neighbors_BSM,
        neighbor_mask_BSM=mask_BSM,
        elapsed_BSM=elapsed_BSM.to(dtype),
        rows_ULD=rows_ULD if use_memory else None,
        products_ULL=rows_ULD @ rows_ULD.mT if use_memory else None,
        end_factors_BSL=uniform(events, ends, hops + 1) if use_memory else None,
        neighbor_factors_BSML=_alike_where_empty(uniform(events, ends, slots, hops + 1), mask_BSM),
        node_features_UF=_without_first(uniform(nodes, node_width)) if node_width else None,
        edge_features_BSMF=uniform(events, ends, slots, edge_width) * mask_BSM[..., None]
        if edge_width
        else None,
        dropout_keys_B=event_keys(0, 0, torch.arange(events)),
    )


def _alike_where_empty(factors_BSML: Tensor, mask_BSM: Tensor) -> Tensor:
    return torch.where(mask_BSM[..., None], factors_BSML, 1.0)


def _without_first(features_UF: Tensor) -> Tensor:
    features_UF[0] = 0
    return features_UF
