"""Published checkpoints of models whose features the published code pads with zeros to a common width.

Columns that only ever meet zeros are dropped on the way here and are zero on the way back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tpnet_dist.config.schema import Config
from tpnet_dist.models.common.published_state import renamed, require_shapes, without_layer_number

FREQUENCY = "time_encoding.frequency"
TIME_NAMES = {"0.time_encoder.w.weight": FREQUENCY, "0.time_encoder.w.bias": "time_encoding.phase"}
PREDICTOR_MODULES = {"1.fc1": "predictor.first", "1.fc2": "predictor.second"}
TRANSFORMER_NAMES = {
    f"0.transformers.#.{theirs}": f"blocks.#.{ours}"
    for theirs, ours in {
        "multi_head_attention.in_proj_weight": "attention.inputs.weight",
        "multi_head_attention.in_proj_bias": "attention.inputs.bias",
        **{
            f"{module}.{kind}": f"{own}.{kind}"
            for module, own in {
                "multi_head_attention.out_proj": "attention.output",
                "linear_layers.0": "first",
                "linear_layers.1": "second",
                "norm_layers.0": "norms.0",
                "norm_layers.1": "norms.1",
            }.items()
            for kind in ("weight", "bias")
        },
    }.items()
}


@dataclass(frozen=True)
class PaddedColumns:
    """Inputs of one weight, in pieces that the published code pads."""

    width: int
    """The width of one of our pieces."""
    padded: int
    """The least width that a piece is padded to on the way out."""
    pieces: int = 1

    def widened(self, narrow: Tensor | None, outputs: int) -> Tensor:
        wide = torch.zeros(outputs, self.pieces, max(self.width, self.padded))
        if narrow is not None:
            wide[..., : self.width] = narrow.view(outputs, self.pieces, self.width)
        return wide.flatten(1)

    def narrowed(self, wide: Tensor) -> Tensor:
        """Remove the padding. A model of other sizes may want more columns than there are; shapes tell so
        later."""
        if wide.shape[1] % self.pieces:
            return wide
        return wide.view(len(wide), self.pieces, -1)[..., : self.width].flatten(1)


@dataclass(frozen=True)
class PaddedParts:
    """Inputs of one weight that are of several kinds, side by side: the width of each, ours and padded."""

    parts: tuple[tuple[int, int], ...]

    def widened(self, narrow: Tensor | None, outputs: int) -> Tensor:
        assert narrow is not None
        pieces = narrow.split_with_sizes([width for width, _ in self.parts], dim=1)
        padded = (
            F.pad(piece, (0, wide - width)) for piece, (width, wide) in zip(pieces, self.parts, strict=True)
        )
        return torch.cat(list(padded), 1)

    def narrowed(self, wide: Tensor) -> Tensor:
        """Remove the padding. A model of other sizes may want other columns than there are; shapes tell so
        later."""
        if wide.shape[1] != sum(padded for _, padded in self.parts):
            return wide
        pieces = wide.split_with_sizes([padded for _, padded in self.parts], dim=1)
        return torch.cat(
            [piece[:, :width] for piece, (width, _) in zip(pieces, self.parts, strict=True)], dim=1
        )


@dataclass(frozen=True)
class PaddedStateNames:
    """Published checkpoints, as `ModelSpec` wants them."""

    title: str
    to_ours: Mapping[str, str]
    """Published name → ours; # is the number of a layer."""
    needed: tuple[str, ...]
    """The names without which it is no such checkpoint."""
    sizes: Callable[[Mapping[str, Tensor]], dict[str, Any]]
    """Settings that the weights tell."""
    padded: Callable[[nn.Module], Mapping[str, PaddedColumns | PaddedParts]]
    """The padding of our weights whose inputs are features; weights of features that do not exist are left
    out."""
    read_edges: Callable[[nn.Module, Mapping[str, Tensor]], None] | None = None
    """Tells the model how wide a checkpoint's edge features are with their padding, where no setting does."""

    def config_of(self, state: Mapping[str, Tensor], config: Config) -> Config:
        self._require_known(state)
        return replace(config, model=replace(config.model, **self.sizes(state)))

    def random_features(self, state: Mapping[str, Tensor]) -> None:
        """Return None: these models have no rows."""

    def to_published(
        self, model: nn.Module, tensors: Mapping[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        ours = dict(model.state_dict() if tensors is None else tensors)
        if FREQUENCY in ours:
            ours[FREQUENCY] = ours[FREQUENCY][:, None]
        for name, columns in self.padded(model).items():
            # a weight of features that do not exist is not there, but its bias is
            like = ours.get(name, ours.get(name.removesuffix("weight") + "bias"))
            if like is not None:
                ours[name] = columns.widened(ours.get(name), len(like))
        to_theirs = {own: theirs for theirs, own in self.to_ours.items()}
        return {renamed(name, to_theirs): tensor for name, tensor in ours.items()}

    def load(self, model: nn.Module, state: Mapping[str, Tensor]) -> None:
        self._require_known(state)
        if self.read_edges is not None:
            self.read_edges(model, state)
        ours = {renamed(name, self.to_ours): tensor for name, tensor in state.items()}
        ours[FREQUENCY] = ours[FREQUENCY].flatten()
        wanted = model.state_dict()
        for name, columns in self.padded(model).items():
            if name not in wanted:
                del ours[name]
            elif name in ours:
                ours[name] = columns.narrowed(ours[name])
        require_shapes(ours, wanted)
        model.load_state_dict(ours)

    def _require_known(self, state: Mapping[str, Tensor]) -> None:
        for name in state:
            if without_layer_number(name) not in self.to_ours:
                raise ValueError(f"{name!r} is no weight of {self.title}; pass the state of its model")
        missing = [name for name in self.needed if name not in state]
        if missing:
            raise ValueError(
                f"{missing[0]!r} is missing; pass the whole state, backbone (0.) and predictor (1.)"
            )


def num_transformers(state: Mapping[str, Tensor]) -> int:
    return sum(name.endswith("in_proj_weight") for name in state)
