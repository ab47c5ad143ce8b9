"""Weights under the names of the released implementation, and back.

Its checkpoint holds `Sequential(backbone, predictor)`. Besides weights it has the memory and, because the
predictor refers to the same memory, all of that twice; what is not a weight of the model is left out here.

The token MLP differs in its columns: the released code pads features, absent ones too, with zeros to a
common width. Columns that only ever meet zeros are dropped on the way here and are zero on the way back.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isqrt

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
from tpnet_dist.models.tpnet.config import TPNetConfig
from tpnet_dist.models.tpnet.model import TPNet

# released module → ours; # is the number of a mixer layer
_MODULES = {
    "0.random_projections.mlp.0": "pair_features.first",
    "0.random_projections.mlp.2": "pair_features.second",
    "0.embedding_module.projection_layer.0": "token_mlp.first",
    "0.embedding_module.projection_layer.2": "token_mlp.second",
    **{
        f"0.embedding_module.mlp_mixers.#.{theirs}": f"mixer.layers.#.{ours}"
        for theirs, ours in MIXER_MODULES.items()
    },
    "1.fc1": "predictor.first",
    "1.fc2": "predictor.second",
}
_TO_OURS = {
    **parameters_of(_MODULES),
    "0.time_encoder.w.weight": "time_encoding.frequency",
    "0.time_encoder.w.bias": "time_encoding.phase",
}
_TO_THEIRS = {ours: theirs for theirs, ours in _TO_OURS.items()}
_TOKEN_WEIGHT, _FREQUENCY = "token_mlp.first.weight", "time_encoding.frequency"
_NEEDED = (
    "0.time_encoder.w.weight",
    "0.embedding_module.projection_layer.0.weight",
    "0.embedding_module.projection_layer.2.weight",
    "0.embedding_module.mlp_mixers.0.token_norm.weight",
    "1.fc1.weight",
)
"""Names without which the sizes are unknown, or a whole part is missing."""
RANDOM_FEATURES = "0.random_projections.random_projections.0"
"""The name under which a checkpoint holds the random features its rows started from."""
_MEMORY = re.compile(r"0\.random_projections\.(begging_time|now_time|random_projections\.)|1\.random_proj")


@dataclass(frozen=True)
class PublishedSizes:
    """Sizes that a released checkpoint has, as `TPNet` takes them: `TPNet(**asdict(sizes))`."""

    hops: int
    neighbors: int
    node_width: int
    edge_width: int
    time_width: int
    channels: int
    mixer_layers: int
    use_memory: bool


class TPNetStateNames:
    """Released checkpoints, as `ModelSpec` wants them."""

    def config_of(self, state: Mapping[str, Tensor], config: Config) -> Config:
        """Return the settings with sizes read off the weights; λ, walk and data must be said."""
        assert isinstance(config.model, TPNetConfig)
        sizes = published_sizes(state)
        features = self.random_features(state)
        width = config.memory.width if features is None else features.shape[1]
        return replace(
            config,
            memory=replace(config.memory, enabled=sizes.use_memory, hops=sizes.hops, width=width),
            model=replace(
                config.model,
                profile="published",
                neighbors=sizes.neighbors,
                time_width=sizes.time_width,
                channels=sizes.channels,
                mixer_layers=sizes.mixer_layers,
            ),
        )

    def random_features(self, state: Mapping[str, Tensor]) -> Tensor | None:
        features = state.get(RANDOM_FEATURES)
        if features is not None and features.ndim != 2:
            raise ValueError(
                f"its random features have the shape {tuple(features.shape)}, but are a row for each node; "
                "give a checkpoint of TPNet"
            )
        return features

    def to_published(
        self, model: nn.Module, tensors: Mapping[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        """Return the weights by published names, with features padded as the published code pads them."""
        assert isinstance(model, TPNet)
        channels = model.predictor.first.out_features
        widths = {"node_width": channels, "edge_width": max(channels, model.edge_width)}
        return to_published(model, **widths, tensors=tensors)

    def load(self, model: nn.Module, state: Mapping[str, Tensor]) -> None:
        assert isinstance(model, TPNet)
        load_published(model, state)


def published_sizes(state: Mapping[str, Tensor]) -> PublishedSizes:
    """Read sizes off the weights. Feature widths are those the features were padded to; a model may be built
    with the true ones."""
    weights = _weights(state)
    token_weight = weights["0.embedding_module.projection_layer.0.weight"]
    channels = len(weights["0.embedding_module.projection_layer.2.weight"])
    time_width = len(weights["0.time_encoder.w.weight"])
    pair_weight = weights.get("0.random_projections.mlp.2.weight")
    pair_width = 0 if pair_weight is None else len(pair_weight)
    return PublishedSizes(
        hops=isqrt(pair_width) // 2 - 1 if pair_width else 3,
        neighbors=len(weights["0.embedding_module.mlp_mixers.0.token_norm.weight"]),
        # the released code takes as many channels as node features
        node_width=channels,
        edge_width=token_weight.shape[1] - channels - time_width - 2 * pair_width,
        time_width=time_width,
        channels=channels,
        mixer_layers=sum(name.endswith("token_norm.weight") for name in weights),
        use_memory=pair_width > 0,
    )


def load_published(model: TPNet, state: Mapping[str, Tensor]) -> None:
    """Take the weights of a released checkpoint; features may be narrower than it has padded them to."""
    _require_one_timescale(model)
    sizes = published_sizes(state)
    if model.node_width > sizes.node_width or model.edge_width > sizes.edge_width:
        raise ValueError(
            f"node and edge features are {model.node_width} and {model.edge_width} wide, but the checkpoint "
            f"takes at most {sizes.node_width} and {sizes.edge_width}; use the features it was trained with"
        )
    ours = {renamed(name, _TO_OURS): tensor for name, tensor in _weights(state).items()}
    kept = _kept_columns(model, sizes.node_width, sizes.edge_width)
    # a model of other sizes may want more columns than there are; the shapes say so below
    ours[_TOKEN_WEIGHT] = ours[_TOKEN_WEIGHT][:, kept[kept < ours[_TOKEN_WEIGHT].shape[1]]]
    ours[_FREQUENCY] = ours[_FREQUENCY].flatten()
    require_shapes(ours, model.state_dict())
    model.load_state_dict(ours)


def to_published(
    model: TPNet, *, node_width: int, edge_width: int, tensors: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """Return the weights as the released code has them with features padded to these widths.

    `tensors`: something else by the names of the model's parameters, such as gradients.
    """
    _require_one_timescale(model)
    ours = dict(model.state_dict() if tensors is None else tensors)
    narrow = ours[_TOKEN_WEIGHT]
    padding = node_width - model.node_width + edge_width - model.edge_width
    wide = narrow.new_zeros(narrow.shape[0], narrow.shape[1] + padding)
    wide[:, _kept_columns(model, node_width, edge_width)] = narrow
    ours[_TOKEN_WEIGHT] = wide
    ours[_FREQUENCY] = ours[_FREQUENCY][:, None]
    return {renamed(name, _TO_THEIRS): tensor for name, tensor in ours.items()}


def _require_one_timescale(model: TPNet) -> None:
    timescales = model.pair_features.timescales if model.pair_features else 1
    if timescales > 1:
        raise ValueError(
            f"a checkpoint of the released TPNet has one timescale, and memory.decay has {timescales} here; "
            "give the one number it was trained with"
        )


def _weights(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    weights = {name: tensor for name, tensor in state.items() if not _MEMORY.match(name)}
    for name in weights:
        if without_layer_number(name) not in _TO_OURS:
            raise ValueError(f"{name!r} is not a weight of the released TPNet; pass the state of its model")
    missing = [name for name in _NEEDED if name not in weights]
    if missing:
        raise ValueError(f"{missing[0]!r} is missing; pass the whole state, backbone (0.) and predictor (1.)")
    return weights


def _kept_columns(model: TPNet, node_width: int, edge_width: int) -> Tensor:
    """Return which columns of a token weight for features padded to these widths the model has."""
    time_width = len(model.time_encoding.phase)
    pair_columns = 2 * model.pair_features.width if model.pair_features else 0
    edge_start = node_width + time_width
    pair_start = edge_start + edge_width
    return torch.cat(
        [
            torch.arange(model.node_width),
            torch.arange(node_width, edge_start + model.edge_width),
            torch.arange(pair_start, pair_start + pair_columns),
        ]
    )
