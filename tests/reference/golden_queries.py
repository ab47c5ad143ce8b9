"""What the arrays of a golden file ask the model, put together without the trainer."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tpnet_dist.models.link_batch import LinkBatch

Arrays = dict[str, Any]


def weights_of(golden: Arrays) -> dict[str, Tensor]:
    prefix = "weights/"
    return {key.removeprefix(prefix): torch.from_numpy(golden[key]) for key in golden if prefix in key}


def query_of(golden: Arrays) -> LinkBatch:
    """Rows as recorded after the warm batches; the padding node is node 0 and stands in every empty slot."""
    hops = range(1, int(golden["hops"]) + 1)
    layers = [golden["H0"], *(golden[f"memory_after_warm_layer{hop}"] for hop in hops)]
    rows_ULD = torch.from_numpy(np.stack(layers, 1))
    ends_BS = np.stack([golden["query_src"], golden["query_dst"], golden["query_neg"]], 1)
    shape = (3, len(ends_BS), int(golden["num_neighbors"]))

    def per_slot(key: str) -> Any:
        return np.ascontiguousarray(golden[key].reshape(shape).transpose(1, 0, 2))

    neighbors_BSM = torch.from_numpy(per_slot("neighbor_ids"))
    one = torch.ones(1)
    node_features, edge_features = golden.get("node_features"), golden.get("edge_features")
    return LinkBatch(
        ends_BS=torch.from_numpy(ends_BS),
        neighbors_BSM=neighbors_BSM,
        neighbor_mask_BSM=neighbors_BSM != 0,
        elapsed_BSM=torch.from_numpy(golden["query_time"][:, None, None] - per_slot("neighbor_times")),
        rows_ULD=rows_ULD,
        products_ULL=rows_ULD @ rows_ULD.mT,
        end_factors_BSL=one.expand(*ends_BS.shape, len(layers)),
        neighbor_factors_BSML=one.expand(*neighbors_BSM.shape, len(layers)),
        node_features_UF=None if node_features is None else torch.from_numpy(node_features),
        edge_features_BSMF=None
        if edge_features is None
        else torch.from_numpy(edge_features[per_slot("neighbor_edge_ids")]),
    )
