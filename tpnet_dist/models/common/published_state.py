"""Reading published checkpoints: names with the number of a layer in them, and shapes."""

import re
from collections.abc import Mapping

from torch import Tensor

_LAYER = re.compile(
    r"\b(mlp_mixers|mixer\.layers|transformers|blocks|temporal_conv_layers|merge_layers)\.(\d+)"
)

MIXER_MODULES = {
    "token_norm": "tokens.norm",
    "token_feedforward.ffn.0": "tokens.first",
    "token_feedforward.ffn.3": "tokens.second",
    "channel_norm": "channels.norm",
    "channel_feedforward.ffn.0": "channels.first",
    "channel_feedforward.ffn.3": "channels.second",
}
"""The names of one layer of a mixer: published module → ours."""


def parameters_of(modules: Mapping[str, str]) -> dict[str, str]:
    """Return names of weights and biases from names of modules."""
    kinds = ("weight", "bias")
    return {f"{theirs}.{kind}": f"{ours}.{kind}" for theirs, ours in modules.items() for kind in kinds}


def renamed(name: str, names: Mapping[str, str]) -> str:
    """Translate a name by names in which # is the number of a layer."""
    number = _LAYER.search(name)
    new = names[without_layer_number(name)]
    return new.replace("#", number[2]) if number else new


def without_layer_number(name: str) -> str:
    return _LAYER.sub(r"\1.#", name)


def require_shapes(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Compare shapes; raise a ValueError that names the first weight of another shape."""
    for name in sorted({*found, *wanted}):
        shapes = [tuple(state[name].shape) if name in state else None for state in (found, wanted)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"{name} is {shapes[0]} in the checkpoint, but {shapes[1]} in the model; "
                "build the model with the checkpoint's sizes"
            )
