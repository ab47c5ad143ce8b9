"""The random features P that rows start from: a function of (seed, epoch, node), the same for any ranks."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

ProjectionKind = Literal["normal", "identity"]

_NODES_AT_ONCE = 1024
_ALL = slice(None)


def fill_projection(
    features_ND: Tensor,
    *,
    kind: ProjectionKind,
    first_node: int,
    seed: int,
    epoch: int,
    columns: slice = _ALL,
    width: int | None = None,
) -> None:
    """Write P of the nodes from `first_node` on into `features_ND`, or some columns of P, which has `width`.

    `normal`: independent N(0, 1/D), drawn by blocks of nodes from a generator keyed by (seed, epoch, block),
    so a node's features do not depend on who owns it. `identity`: P = I, which keeps walk matrices explicit.
    """
    num_nodes = len(features_ND)
    width = width or features_ND.shape[1]
    if kind == "identity":
        features_ND.zero_()
        nodes = torch.arange(first_node, first_node + num_nodes)[:, None]
        features_ND += nodes.to(features_ND.device) == torch.arange(width, device=features_ND.device)[columns]
        return
    stop_node = first_node + num_nodes
    for block in range(first_node // _NODES_AT_ONCE, -(-stop_node // _NODES_AT_ONCE)):
        block_start = block * _NODES_AT_ONCE
        draw = np.random.Generator(np.random.SFC64([seed, epoch, block]))
        values = draw.standard_normal((_NODES_AT_ONCE, width), dtype=np.float32) * np.float32(width**-0.5)
        start, stop = max(first_node, block_start), min(stop_node, block_start + _NODES_AT_ONCE)
        chosen = torch.from_numpy(values[start - block_start : stop - block_start, columns])
        features_ND[start - first_node : stop - first_node] = chosen.to(features_ND)
