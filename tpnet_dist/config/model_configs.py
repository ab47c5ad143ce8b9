"""The settings of each model by the model's name: models register theirs, so settings know no model."""

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
        raise InputError(f"model.name is {name}, but must be one of {', '.join(_CONFIGS)}; choose one")
    return _CONFIGS[str(name)]
