"""Weights of GraphMixer under the names of DyGLib's implementation, and back."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from tpnet_dist.models.common.padded_names import (
    PREDICTOR_MODULES,
    TIME_NAMES,
    PaddedParts,
    PaddedStateNames,
)
from tpnet_dist.models.common.published_state import MIXER_MODULES, parameters_of
from tpnet_dist.models.graphmixer.model import GraphMixer

_TOKENS, _TIME = "0.projection_layer.weight", "0.time_encoder.w.weight"
_NORM, _OUTPUT = "0.mlp_mixers.0.token_norm.weight", "0.output_layer.weight"


def _sizes(state: Mapping[str, Tensor]) -> dict[str, Any]:
    channels, tokens = len(state[_OUTPUT]), len(state[_TOKENS])
    return {
        "neighbors": len(state[_NORM]),
        "time_width": len(state[_TIME]),
        "channels": channels,
        "token_channels": None if tokens == channels else tokens,
        "mixer_layers": sum(name.endswith("token_norm.weight") for name in state),
    }


def _padded(model: nn.Module) -> dict[str, PaddedParts]:
    assert isinstance(model, GraphMixer)
    channels, times = model.output.out_features, len(model.time_encoding.phase)
    tokens = model.tokens.out_features
    nodes = (model.node_width, max(model.node_width, channels))
    return {
        "tokens.weight": PaddedParts(((model.edge_width, model.padded_edges), (times, times))),
        "output.weight": PaddedParts(((tokens, tokens), nodes)),
    }


def _read_edges(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    assert isinstance(model, GraphMixer)
    edges = state[_TOKENS].shape[1] - len(model.time_encoding.phase)
    model.padded_edges = max(model.edge_width, edges)


STATE_NAMES = PaddedStateNames(
    title="GraphMixer",
    to_ours={
        **TIME_NAMES,
        **parameters_of(
            {
                "0.projection_layer": "tokens",
                **{f"0.mlp_mixers.#.{name}": f"mixer.layers.#.{own}" for name, own in MIXER_MODULES.items()},
                "0.output_layer": "output",
                **PREDICTOR_MODULES,
            }
        ),
    },
    needed=(_TOKENS, _NORM, _TIME, _OUTPUT),
    sizes=_sizes,
    padded=_padded,
    read_edges=_read_edges,
)
