"""Settings on disk: TOML files, the presets that come with the package, and a run's own `config.toml`."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import tomli_w

from tpnet_dist.config.args import flag_value
from tpnet_dist.config.keys import FileLayer, Key, Layer, config_from, config_keys, did_you_mean, values_of
from tpnet_dist.config.model_configs import DEFAULT_MODEL, model_config_type
from tpnet_dist.config.schema import Config
from tpnet_dist.errors import InputError
from tpnet_dist.files.atomic_write import atomic_write
from tpnet_dist.files.user_paths import read_settings

CONFIG_NAME = "config.toml"
"""The file of a run's settings, in its folder."""
_BY_MODEL = "models."
_LEVELS = 2
"""How many tables a setting lies within at most: [models.NAME]."""
_HEADER = "# Every setting of this run, defaults included. To run it again: --config with this file.\n\n"


def read_layer(path: Path, model: str | None = None) -> Layer:
    """Return the keys a TOML file sets, for this model; by default for the one it names."""
    return _layer(_tree(_content(path), str(path)), str(path), model)


def read_layers(preset: str | None, file: Path | None, model: str | None = None) -> list[Layer]:
    """Return what a preset and then a file say, where they are given; `model`: the model that is named
    elsewhere."""
    trees: list[tuple[str, Layer]] = []
    if preset is not None:
        trees.append((f"preset {preset}", _preset_tree(preset)))
    if file is not None:
        trees.append((str(file), _tree(_content(file), str(file))))
    named = [model, *(str(tree["model.name"]) for _, tree in reversed(trees) if "model.name" in tree)]
    chosen = next(filter(None, named), None)
    return [_layer(tree, where, chosen) for where, tree in trees]


def read_preset(name: str, model: str | None = None) -> Layer:
    """Return the keys a preset of `launch/presets` sets."""
    [layer] = read_layers(name, None, model)
    return layer


def model_of(args: list[str]) -> str:
    """Return the name of the model that a command line asks for."""
    name, preset, file, run = (
        flag_value(args, flag) for flag in ("model.name", "preset", "config", "continue_from")
    )
    return model_named(name, preset, Path(file) if file else None, Path(run) if run else None)


def model_named(name: str | None, preset: str | None, file: Path | None, run: Path | None = None) -> str:
    """Return the name of the model that was asked for: by its name, by a file, by a preset or by a run to go
    on from."""
    if name is None:
        trees = ([_tree(_content(file), str(file))] if file else []) + (
            [_preset_tree(preset)] if preset else []
        )
        settings = run / CONFIG_NAME if run else None
        if settings is not None and settings.is_file():
            trees.append(_tree(_content(settings), str(settings)))
        name = next((str(tree["model.name"]) for tree in trees if "model.name" in tree), DEFAULT_MODEL)
    model_config_type(name)
    return name


def preset_names() -> list[str]:
    return list(_presets())


def read_config(path: Path) -> Config:
    return config_from([read_layer(path)])


def write_config(config: Config, path: Path) -> None:
    """Write every key, so that later defaults change nothing; whole or not at all. None is an absent key."""
    sections: dict[str, dict[str, object]] = {}
    for name, value in values_of(config).items():
        section, key = name.split(".")
        if value is not None:
            sections.setdefault(section, {})[key] = list(value) if isinstance(value, tuple) else value
    with atomic_write(path) as file:
        file.write((_HEADER + tomli_w.dumps(sections)).encode())


def _presets() -> dict[str, Traversable]:
    folder = files("launch") / "presets"  # beside tpnet_dist, in a checkout and in a wheel alike
    found = {Path(entry.name).stem: entry for entry in folder.iterdir() if entry.name.endswith(".toml")}
    return dict(sorted(found.items()))


def parse_toml(content: bytes) -> dict[str, Any]:
    """InputError for whatever is no TOML, without the file's name and the remedy, which the caller knows."""
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except ValueError as error:  # not UTF-8, not TOML
        raise InputError(f"not valid TOML: {error}") from error
    except RecursionError:
        raise InputError("tables or lists are nested too deeply") from None


def _content(path: Path) -> bytes:
    return read_settings(path, "TOML file")


def _preset_tree(name: str) -> Layer:
    presets = _presets()
    if name not in presets:
        raise InputError(f"unknown preset {name}; choose one of {', '.join(presets)}")
    return _tree(presets[name].read_bytes(), f"preset {name}")


def _tree(content: bytes, where: str) -> Layer:
    try:
        return _flat(parse_toml(content))
    except InputError as error:
        raise InputError(f"{where}: {error}; correct it there") from error


def _layer(tree: Layer, where: str, model: str | None) -> Layer:
    try:
        name = str(model or tree.get("model.name", DEFAULT_MODEL))
        keys = config_keys(name)
        values = {key: value for key, value in tree.items() if not key.startswith(_BY_MODEL)}
        # settings of several models, in tables [models.NAME]
        own = f"{_BY_MODEL}{name}."
        values |= {f"model.{key.removeprefix(own)}": tree[key] for key in tree if key.startswith(own)}
        return FileLayer({key: _value(key, value, keys) for key, value in values.items()}, where)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _flat(tree: dict[str, object], prefix: str = "") -> Layer:
    entries: Layer = {}
    for name, value in tree.items():
        if isinstance(value, dict) and prefix.count(".") < _LEVELS:
            entries |= _flat(value, f"{prefix}{name}.")
        else:
            entries[prefix + name] = value
    return entries


def _value(name: str, value: object, keys: Mapping[str, Key]) -> object:
    if name not in keys:
        raise InputError(f"unknown key {name}; {did_you_mean(name, keys)}")
    return keys[name].from_toml(value)
