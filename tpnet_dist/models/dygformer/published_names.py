"""Weights of DyGFormer under the names of DyGLib's implementation, and back."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from tpnet_dist.models.common.padded_names import (
    PREDICTOR_MODULES,
    TIME_NAMES,
    TRANSFORMER_NAMES,
    PaddedColumns,
    PaddedStateNames,
    num_transformers,
)
from tpnet_dist.models.common.published_state import parameters_of
from tpnet_dist.models.dygformer.model import DyGFormer

_TIME, _OUTPUT = "0.time_encoder.w.weight", "0.output_layer.weight"
_PROJECTED_TIME = "0.projection_layer.time.weight"
_COUNTS = "0.neighbor_co_occurrence_encoder.neighbor_co_occurrence_encode_layer"


def _sizes(state: Mapping[str, Tensor]) -> dict[str, Any]:
    time_width, (part_channels, inputs) = len(state[_TIME]), state[_PROJECTED_TIME].shape
    return {
        "patch_size": inputs // time_width,
        "time_width": time_width,
        "part_channels": part_channels,
        "channels": len(state[_OUTPUT]),
        "layers": num_transformers(state),
    }


def _padded(model: nn.Module) -> dict[str, PaddedColumns]:
    assert isinstance(model, DyGFormer)
    channels, patch_size = model.output.out_features, model.patch_size
    return {
        "node.weight": PaddedColumns(model.node_width, channels, pieces=patch_size),
        "edge.weight": PaddedColumns(model.edge_width, channels, pieces=patch_size),
    }


STATE_NAMES = PaddedStateNames(
    title="DyGFormer",
    to_ours={
        **TIME_NAMES,
        **TRANSFORMER_NAMES,
        **parameters_of(
            {
                **{f"0.projection_layer.{name}": name for name in ("node", "edge", "time")},
                "0.projection_layer.neighbor_co_occurrence": "counts",
                f"{_COUNTS}.0": "co_occurrence.first",
                f"{_COUNTS}.2": "co_occurrence.second",
                "0.output_layer": "output",
                **PREDICTOR_MODULES,
            }
        ),
    },
    needed=(_TIME, _PROJECTED_TIME, _OUTPUT, "1.fc1.weight"),
    sizes=_sizes,
    padded=_padded,
)
