"""The settings of each model by the model's name: models register theirs, so settings know no model."""

from difflib import get_close_matches
from typing import Any

from tpnet_dist.errors import InputError

DEFAULT_MODEL = "tpnet"

_CONFIGS: dict[str, type[Any]] = {}


def register_model_config(name: str, config: type[Any]) -> None:
    _CONFIGS[name] = config


def model_names() -> tuple[str, ...]:
    return tuple(_CONFIGS)


def model_config_type(name: object) -> type[Any]:
    """Return the dataclass of the settings of this model."""
    if name not in _CONFIGS:
        near = get_close_matches(str(name), _CONFIGS, n=1)
        remedy = f"did you mean {near[0]}?" if near else "choose one"
        raise InputError(f"model.name is {name}, but must be one of {', '.join(_CONFIGS)}; {remedy}")
    return _CONFIGS[str(name)]
