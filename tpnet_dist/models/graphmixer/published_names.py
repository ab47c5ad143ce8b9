"""Weights of GraphMixer under the names of DyGLib's implementation, and back.

The published code pads features, absent ones too, with zeros to a common width; columns that only ever meet
zeros are dropped on the way here and are zero on the way back.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from tpnet_dist.config.schema import Config
from tpnet_dist.models.common.published_state import (
    MIXER_MODULES,
    parameters_of,
    renamed,
    require_shapes,
    without_layer_number,
)
from tpnet_dist.models.graphmixer.config import GraphMixerConfig
from tpnet_dist.models.graphmixer.model import GraphMixer

_TO_OURS = {
    **parameters_of(
        {
            "0.projection_layer": "tokens",
            **{
                f"0.mlp_mixers.#.{theirs}": f"mixer.layers.#.{ours}" for theirs, ours in MIXER_MODULES.items()
            },
            "0.output_layer": "output",
            "1.fc1": "predictor.first",
            "1.fc2": "predictor.second",
        }
    ),
    "0.time_encoder.w.weight": "time_encoding.frequency",
    "0.time_encoder.w.bias": "time_encoding.phase",
}
_TO_THEIRS = {ours: theirs for theirs, ours in _TO_OURS.items()}
_FREQUENCY = "time_encoding.frequency"
_NEEDED = ("0.projection_layer.weight", "0.mlp_mixers.0.token_norm.weight", "0.time_encoder.w.weight")


class GraphMixerStateNames:
    """Published checkpoints, as `ModelSpec` wants them."""

    def config_of(self, state: Mapping[str, Tensor], config: Config) -> Config:
        assert isinstance(config.model, GraphMixerConfig)
        _require_known(state)
        model = replace(
            config.model,
            neighbors=len(state["0.mlp_mixers.0.token_norm.weight"]),
            time_width=len(state["0.time_encoder.w.weight"]),
            channels=len(state["0.projection_layer.weight"]),
            mixer_layers=sum(name.endswith("token_norm.weight") for name in state),
        )
        return replace(config, model=model)

    def random_features(self, state: Mapping[str, Tensor]) -> None:
        """Return None: GraphMixer has no rows."""

    def to_published(
        self, model: nn.Module, tensors: Mapping[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        assert isinstance(model, GraphMixer)
        ours = dict(model.state_dict() if tensors is None else tensors)
        if _FREQUENCY in ours:
            ours[_FREQUENCY] = ours[_FREQUENCY][:, None]
        for name, kept in _kept_columns(model, _padded_edge_width(model)).items():
            narrow = ours[name]
            wide = narrow.new_zeros(len(narrow), _padded_inputs(model)[name])
            wide[:, kept] = narrow
            ours[name] = wide
        return {renamed(name, _TO_THEIRS): tensor for name, tensor in ours.items()}

    def load(self, model: nn.Module, state: Mapping[str, Tensor]) -> None:
        assert isinstance(model, GraphMixer)
        _require_known(state)
        ours = {renamed(name, _TO_OURS): tensor for name, tensor in state.items()}
        ours[_FREQUENCY] = ours[_FREQUENCY].flatten()
        padded = ours["tokens.weight"].shape[1] - len(model.time_encoding.phase)
        for name, kept in _kept_columns(model, padded).items():
            # a model of other sizes may want more columns than there are; the shapes say so below
            ours[name] = ours[name][:, kept[kept < ours[name].shape[1]]]
        require_shapes(ours, model.state_dict())
        model.load_state_dict(ours)


def _require_known(state: Mapping[str, Tensor]) -> None:
    for name in state:
        if without_layer_number(name) not in _TO_OURS:
            raise ValueError(f"{name!r} is no weight of GraphMixer; pass the state of its model")
    missing = [name for name in _NEEDED if name not in state]
    if missing:
        raise ValueError(f"{missing[0]!r} is missing; pass the whole state, backbone (0.) and predictor (1.)")


def _padded_edge_width(model: GraphMixer) -> int:
    return max(model.edge_width, model.output.out_features)


def _padded_inputs(model: GraphMixer) -> dict[str, int]:
    """Return how many columns the published weights have."""
    channels = model.output.out_features
    return {
        "tokens.weight": _padded_edge_width(model) + len(model.time_encoding.phase),
        "output.weight": channels + max(model.node_width, channels),
    }


def _kept_columns(model: GraphMixer, padded_edge_width: int) -> dict[str, Tensor]:
    """Return the columns of a published weight that the model has: features may be narrower than they were
    padded to."""
    time_columns = padded_edge_width + torch.arange(len(model.time_encoding.phase))
    return {
        "tokens.weight": torch.cat([torch.arange(model.edge_width), time_columns]),
        "output.weight": torch.arange(model.output.out_features + model.node_width),
    }
