"""Weights of TGAT under the names of DyGLib's implementation, and back."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from tpnet_dist.models.common.padded_names import (
    PREDICTOR_MODULES,
    TIME_NAMES,
    PaddedParts,
    PaddedStateNames,
)
from tpnet_dist.models.common.published_state import parameters_of
from tpnet_dist.models.tgat.model import TGAT, TGATLayer

_TIME, _KEY, _MERGED = (
    "0.time_encoder.w.weight",
    "0.temporal_conv_layers.0.key_projection.weight",
    "0.merge_layers.0.fc2.weight",
)
_ATTENTION, _MERGE = "0.temporal_conv_layers.#", "0.merge_layers.#"


def _sizes(state: Mapping[str, Tensor]) -> dict[str, Any]:
    return {
        "time_width": len(state[_TIME]),
        "channels": len(state[_MERGED]),
        "layers": sum(name.endswith("key_projection.weight") for name in state),
    }


def _padded(model: nn.Module) -> dict[str, PaddedParts]:
    assert isinstance(model, TGAT)
    channels, now = model.channels, (model.time_width, model.time_width)
    attended = channels + model.time_width
    parts: dict[str, PaddedParts] = {}
    for number, layer in enumerate(model.blocks):
        assert isinstance(layer, TGATLayer)
        name, known = f"blocks.{number}", (layer.hidden_width, channels)
        key = PaddedParts((known, (model.edge_width, model.padded_edges), now))
        parts |= {
            f"{name}.attention.query.weight": PaddedParts((known, now)),
            f"{name}.attention.key.weight": key,
            f"{name}.attention.value.weight": key,
            f"{name}.first.weight": PaddedParts(((attended, attended), (model.node_width, channels))),
        }
    return parts


def _read_edges(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    assert isinstance(model, TGAT)
    edges = state[_KEY].shape[1] - model.channels - model.time_width
    model.padded_edges = max(model.edge_width, edges)


STATE_NAMES = PaddedStateNames(
    title="TGAT",
    to_ours={
        **TIME_NAMES,
        **{
            f"{_ATTENTION}.{kind}_projection.weight": f"blocks.#.attention.{kind}.weight"
            for kind in ("query", "key", "value")
        },
        **parameters_of(
            {
                f"{_ATTENTION}.layer_norm": "blocks.#.attention.norm",
                f"{_ATTENTION}.residual_fc": "blocks.#.attention.output",
                f"{_MERGE}.fc1": "blocks.#.first",
                f"{_MERGE}.fc2": "blocks.#.second",
                **PREDICTOR_MODULES,
            }
        ),
    },
    needed=(_TIME, _KEY, _MERGED, "1.fc1.weight"),
    sizes=_sizes,
    padded=_padded,
    read_edges=_read_edges,
)
