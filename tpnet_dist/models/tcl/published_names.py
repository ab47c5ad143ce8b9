"""Weights of TCL under the names of DyGLib's implementation, and back."""

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
from tpnet_dist.models.tcl.model import TCL

_PLACES = "0.depth_embedding.weight"
_TIME, _OUTPUT = "0.time_encoder.w.weight", "0.output_layer.weight"


def _sizes(state: Mapping[str, Tensor]) -> dict[str, Any]:
    return {
        "neighbors": len(state[_PLACES]) - 1,
        "time_width": len(state[_TIME]),
        "channels": len(state[_OUTPUT]),
        "layers": num_transformers(state),
    }


def _padded(model: nn.Module) -> dict[str, PaddedColumns]:
    assert isinstance(model, TCL)
    channels = model.output.in_features
    return {
        "node.weight": PaddedColumns(model.node_width, channels),
        "edge.weight": PaddedColumns(model.edge_width, channels),
    }


STATE_NAMES = PaddedStateNames(
    title="TCL",
    to_ours={
        **TIME_NAMES,
        **TRANSFORMER_NAMES,
        **parameters_of(
            {
                **{f"0.projection_layer.{name}": name for name in ("node", "edge", "time")},
                "0.output_layer": "output",
                **PREDICTOR_MODULES,
            }
        ),
        _PLACES: "places",
    },
    needed=(_PLACES, _TIME, _OUTPUT, "1.fc1.weight"),
    sizes=_sizes,
    padded=_padded,
)
