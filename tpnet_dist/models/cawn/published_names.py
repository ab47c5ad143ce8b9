"""Weights of CAWN under the names of DyGLib's implementation, and back."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from tpnet_dist.models.cawn.model import CAWN
from tpnet_dist.models.common.padded_names import (
    PREDICTOR_MODULES,
    TIME_NAMES,
    TRANSFORMER_NAMES,
    PaddedParts,
    PaddedStateNames,
)
from tpnet_dist.models.common.published_state import parameters_of

_WALKS = "0.walk_encoder"
_TIME, _POSITION = "0.time_encoder.w.weight", "0.position_encoder.position_encode_layer"
_FEATURES = f"{_WALKS}.feature_encoder.bilstm_encoder.weight_ih_l0"
_OUTPUT = f"{_WALKS}.projection_layers.1.weight"
_BLOCK = "0.transformers.#."


def _sizes(state: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the sizes; the width of edge features is what is left of that of a step."""
    channels, time_width = len(state[_OUTPUT]), len(state[_TIME])
    position_width, hops = state[f"{_POSITION}.0.weight"].shape
    return {
        "channels": channels,
        "time_width": time_width,
        "position_width": position_width,
        "walk_length": hops - 1,
        "edge_channels": state[_FEATURES].shape[1] - channels - time_width - position_width,
    }


def _padded(model: nn.Module) -> dict[str, PaddedParts]:
    assert isinstance(model, CAWN)
    parts = PaddedParts(
        (
            (model.node_width, model.padded_nodes),
            (model.time_width, model.time_width),
            (model.edge_width, model.padded_edges),
            (model.position_width, model.position_width),
        )
    )
    return {"feature_walks.input_weight": parts, "feature_walks.back_input_weight": parts}


def _lstm_names() -> dict[str, str]:
    return {
        f"{_WALKS}.{theirs}.bilstm_encoder.{kind}_{gates}_l0{suffix}": f"{ours}.{back}{place}_{kind}"
        for theirs, ours in (("feature_encoder", "feature_walks"), ("position_encoder", "position_walks"))
        for kind in ("weight", "bias")
        for gates, place in (("ih", "input"), ("hh", "hidden"))
        for suffix, back in (("", ""), ("_reverse", "back_"))
    }


def _block_names() -> dict[str, str]:
    return {
        name.replace(_BLOCK, f"{_WALKS}.transformer_encoder."): ours.replace("blocks.#", "block")
        for name, ours in TRANSFORMER_NAMES.items()
    }


STATE_NAMES = PaddedStateNames(
    title="CAWN",
    to_ours={
        **TIME_NAMES,
        **_lstm_names(),
        **_block_names(),
        **parameters_of(
            {
                f"{_POSITION}.0": "positions.first",
                f"{_POSITION}.2": "positions.second",
                f"{_WALKS}.projection_layers.0": "tokens",
                f"{_WALKS}.projection_layers.1": "output",
                **PREDICTOR_MODULES,
            }
        ),
    },
    needed=(_TIME, f"{_POSITION}.0.weight", _FEATURES, _OUTPUT, "1.fc1.weight"),
    sizes=_sizes,
    padded=_padded,
)
