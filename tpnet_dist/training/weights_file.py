"""Weights in a single file: a `best.pt` of ours, or a checkpoint of the released code."""

import errno
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tpnet_dist.distributed.world import World
from tpnet_dist.errors import InputError, lacks_memory
from tpnet_dist.files.atomic_write import atomic_write
from tpnet_dist.files.user_paths import require_file
from tpnet_dist.models.spec import ModelSpec
from tpnet_dist.training.content_digest import DIGEST_KEY, is_intact, sealed
from tpnet_dist.training.step_folder import FORMAT

_FACTS: dict[str, tuple[tuple[type, ...], int]] = {
    "format": ((int,), 0),
    "epoch": ((int,), 0),
    "seed": ((int,), 0),
    "val_ap": ((float, int), -1),
}
"""The types of numbers that a file of ours says, and the least of each."""


def load_weights(model: nn.Module, weights: dict[str, torch.Tensor], path: Path) -> None:
    """Raise InputError that names the first missing, unexpected or wrongly shaped weight."""
    ours = model.state_dict()
    for name in sorted({*ours, *weights}):
        mine, theirs = (_kind_of(state[name]) if name in state else "absent" for state in (ours, weights))
        if mine != theirs:
            raise InputError(
                f"{path}: {name} is {theirs} where this data and configuration ask for {mine}; "
                "use the data folder, features and settings the checkpoint was made with"
            )
    model.load_state_dict(weights)


def _kind_of(weight: object) -> str:
    """The shape, and what else is not as weights are."""
    if not isinstance(weight, torch.Tensor):
        return f"a {type(weight).__name__}"
    is_plain = weight.is_floating_point() and weight.layout is torch.strided and not weight.is_meta
    return f"{tuple(weight.shape)}{'' if is_plain else f' of {weight.dtype}, {weight.layout}'}"


def start_from_file(model: nn.Module, spec: ModelSpec, file: str, world: World) -> None:
    """Take the weights of `model.weights`, if it names a file; the first rank reads it for all."""
    if file:
        start_from(model, spec, world.on_first_rank(lambda: read_state(Path(file))), Path(file))


def start_from(model: nn.Module, spec: ModelSpec, state: dict[str, Any], path: Path) -> None:
    """Take the weights of a checkpoint of ours, or of a published one by its own names."""
    weights = state.get("model", state)
    if not _are_weights(weights):
        raise InputError(f"{path}: holds no weights by their names; give a checkpoint of {spec.title}")
    if "model" in state:
        load_weights(model, weights, path)
        return
    if spec.state_names is None:
        raise InputError(f"{path}: no published checkpoint of {spec.title} can be read; give one of a run")
    try:
        spec.state_names.load(model, weights)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error


def write_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write a checkpoint with a checksum of its content, whole or not at all; `torch.load` reads it."""
    with atomic_write(path) as file:
        try:
            torch.save(sealed(state), file)
        except RuntimeError as error:
            # of a write that failed, torch only says that its archive is not complete
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def read_state(path: Path) -> dict[str, Any]:
    """Read tensors and plain values alone: whatever a pickle asks for beyond these is refused, and not
    run."""
    require_file(path, "weights")
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's warning of a strange pickle, which is refused below
            state = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such checkpoint; train first") from error
    except Exception as error:  # torch.load raises many kinds for damaged files, OSError among them
        if lacks_memory(error):
            raise
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        if "unsupported global" in str(error).lower():
            raise InputError(
                f"{path}: holds more than tensors, which might run code, so nothing of it was taken; "
                "give a checkpoint with a state dict alone"
            ) from error
        raise InputError(
            f"{path}: not a readable checkpoint; give the folder of a run, or train anew"
        ) from error
    if not isinstance(state, dict):
        raise InputError(f"{path}: holds a {type(state).__name__}, no state of a model; give a checkpoint")
    if not is_intact(state):
        raise InputError(
            f"{path}: its content is not what was saved, by its checksum; restore the file, or train anew"
        )
    if "model" in state:
        _require_facts(path, state)
    return {name: value for name, value in state.items() if name != DIGEST_KEY}


def _require_facts(path: Path, state: Mapping[str, Any]) -> None:
    """InputError for types and values that no file of ours has."""
    for name, (kinds, least) in _FACTS.items():
        value = state.get(name, least)
        if type(value) not in kinds or not least <= value < math.inf:
            raise InputError(
                f"{path}: its {name} is {value!r:.40}, which no run writes; restore the file, or train anew"
            )
    if state.get("format", FORMAT) != FORMAT:
        raise InputError(
            f"{path}: it has format {state['format']}, and this version reads {FORMAT}; "
            "use the version it was made with"
        )
    if not _are_weights(state["model"]):
        raise InputError(f"{path}: holds no weights by their names; restore the file, or train anew")


def _are_weights(found: object) -> bool:
    return isinstance(found, dict) and all(
        isinstance(name, str) and isinstance(weight, torch.Tensor) and weight.layout is torch.strided
        for name, weight in found.items()
    )
