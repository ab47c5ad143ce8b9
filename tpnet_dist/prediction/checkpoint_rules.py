"""What a checkpoint of ours says of itself, held against what we write, before any of it is used."""

from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from torch import Tensor

from tpnet_dist.config.keys import RENAMED, Key, config_from, config_keys
from tpnet_dist.config.model_configs import DEFAULT_MODEL
from tpnet_dist.config.schema import Config
from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.calibration import Calibration
from tpnet_dist.files.typed_json import from_json

_OF_A_PREDICTOR: dict[str, tuple[type, ...]] = {
    "until": (int,),
    "as_evaluated": (bool,),
    "capacity": (int,),
    "projection": (Tensor, NoneType),
    "newcomers": (list,),
    "sizes": (list,),
    "src": (Tensor,),
    "dst": (Tensor,),
    "time": (Tensor,),
    "features": (Tensor, NoneType),
}


def config_of(path: Path, said: object) -> Config:
    """Make a configuration of settings by their dotted names, as JSON or a pickle brings them."""
    if not isinstance(said, Mapping):
        raise InputError(f"{path}: its config is {_shown(said)}, but holds settings; {_REMEDY}")
    said = {RENAMED.get(str(name), str(name)): value for name, value in said.items()}
    try:
        keys = config_keys(said.get("model.name", DEFAULT_MODEL))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    if unknown := sorted(map(str, set(said) - set(keys))):
        raise InputError(
            f"{path}: has a setting {unknown[0]} that this version does not know; use the version it was "
            "made with"
        )
    try:
        return config_from([{name: _setting(keys[name], value) for name, value in said.items()}])
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def number_of(path: Path, name: str, value: object) -> int:
    """A whole one, from 0 on."""
    if type(value) is not int or value < 0:
        raise InputError(f"{path}: its {name} is {_shown(value)}, but is a whole number; {_REMEDY}")
    return value


def calibration_of(path: Path, said: object) -> Calibration | None:
    """How logits become probabilities, if the checkpoint says so."""
    try:
        return None if said is None else from_json(Calibration, said, "calibration")
    except InputError as error:
        raise InputError(f"{path}: {error}; {_REMEDY}") from error


def saved_of(path: Path, saved: object) -> Mapping[str, Any] | None:
    """What a predictor had seen, if the checkpoint is one's."""
    if saved is None:
        return None
    if not isinstance(saved, Mapping):
        raise InputError(f"{path}: its predictor is {_shown(saved)}, but holds what was seen; {_REMEDY}")
    for name, kinds in _OF_A_PREDICTOR.items():
        if name not in saved:
            raise InputError(f"{path}: its predictor says nothing of its {name}; {_REMEDY}")
        if not isinstance(saved[name], kinds):
            raise _wrong(path, name, saved[name])
    for name in ("until", "capacity"):
        number_of(path, name, saved[name])
    for size in saved["sizes"]:
        number_of(path, "sizes", size)
    for newcomer in saved["newcomers"]:
        if not _is_newcomer(newcomer):
            raise _wrong(path, "newcomers", newcomer)
    num_events = sum(saved["sizes"])
    for name in ("src", "dst", "time"):
        if tuple(saved[name].shape) != (num_events,):
            raise _wrong(path, name, saved[name])
    for name in ("projection", "features"):
        if saved[name] is not None and saved[name].ndim != 2:
            raise _wrong(path, name, saved[name])
    return saved


_REMEDY = "give a checkpoint as it was written"


def _setting(key: Key, value: object) -> object:
    if value is None and key.is_optional:
        return None
    # JSON has lists only, a pickle has tuples
    return key.from_toml(list(value) if isinstance(value, tuple) else value)


def _is_newcomer(one: object) -> bool:
    return (
        isinstance(one, list | tuple)
        and len(one) == 2
        and one[0] in ("src", "dst")
        and isinstance(one[1], int | str)
    )


def _wrong(path: Path, name: str, value: object) -> InputError:
    return InputError(f"{path}: {name} of its predictor is {_shown(value)}, which none has; {_REMEDY}")


def _shown(value: object) -> str:
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"{value!r:.40}"
