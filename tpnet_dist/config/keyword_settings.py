"""Settings as a call in Python gives them: `memory__decay=1e-7` for the key `memory.decay`."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tpnet_dist.config.keys import Key, Layer, config_keys, did_you_mean
from tpnet_dist.config.toml_files import model_named
from tpnet_dist.config.train_args import OwnFlags, TrainSettings, settings_of
from tpnet_dist.errors import InputError

_ARGUMENTS = ("data", "preset", "config", "run_dir", "continue_from", "learn_old_test", "fresh", "log")
"""Keywords of `fit` besides settings: a keyword that nobody knows may be meant for one of them."""


def call_settings(
    data: Path | str | None,
    own: OwnFlags,
    keywords: Mapping[str, object],
) -> TrainSettings:
    """Return all that a call of `fit` says; InputError with one sentence where it cannot be used."""
    name = keywords.get("model__name")
    model = model_named(None if name is None else str(name), own.preset, own.config, own.continue_from)
    said = _keyword_layer(keywords, model)
    if data is not None:
        if "data.folder" in said:
            raise InputError(f"data is {data} and data__folder {said['data.folder']}; give one of them")
        said["data.folder"] = str(data)
    return settings_of(own, said, model)


def value_of(key: Key, value: object) -> object:
    """Return a value of Python, which must be of the key's type; None where the key may have none."""
    if value is None and key.is_optional:
        return None
    return key.from_toml(_plain(value))


def _keyword_layer(keywords: Mapping[str, object], model: str) -> Layer:
    keys = config_keys(model)
    by_keyword = {_keyword_of(name): key for name, key in keys.items()}
    said: Layer = {}
    for keyword, value in keywords.items():
        if keyword not in by_keyword:
            remedy = did_you_mean(keyword.replace("__", "."), [*keys, *_ARGUMENTS], _keyword_of)
            raise InputError(f"unknown setting {keyword}; {remedy}")
        key = by_keyword[keyword]
        said[key.name] = value_of(key, value)
    return said


def _keyword_of(name: str) -> str:
    return name.replace(".", "__")


def _plain(value: object) -> object:
    """Return the value as TOML would have it: numbers of numpy as Python's, paths as text, tuples as
    lists."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    return [_plain(each) for each in value] if isinstance(value, list | tuple | range) else value
