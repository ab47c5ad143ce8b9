"""Settings on disk: TOML files, the presets that come with the package, and a run's own `config.toml`."""

import tomllib
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import tomli_w

from tpnet_dist.config import Config
from tpnet_dist.config_keys import CONFIG_KEYS, FileLayer, Layer, config_from, did_you_mean, values_of
from tpnet_dist.errors import InputError
from tpnet_dist.whole_file import whole_file

CONFIG_NAME = "config.toml"
"""Of a run, in its folder."""
_HEADER = "# Every setting of this run, defaults included. To run it again: --config with this file.\n\n"


def read_layer(path: Path) -> Layer:
    """The keys a TOML file sets."""
    try:
        return _layer(path.read_bytes(), str(path))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; give the path of a TOML file") from error


def read_preset(name: str) -> Layer:
    """The keys a preset of `launch/presets` sets."""
    presets = _presets()
    if name not in presets:
        raise InputError(f"unknown preset {name}; choose one of {', '.join(presets)}")
    return _layer(presets[name].read_bytes(), f"preset {name}")


def read_layers(preset: str | None, file: Path | None) -> list[Layer]:
    """What a preset and then a file say, where they are given."""
    layers = [] if preset is None else [read_preset(preset)]
    return layers if file is None else [*layers, read_layer(file)]


def preset_names() -> list[str]:
    return list(_presets())


def read_config(path: Path) -> Config:
    return config_from([read_layer(path)])


def write_config(config: Config, path: Path) -> None:
    """Every key, so that later defaults change nothing; whole or not at all. None is an absent key."""
    sections: dict[str, dict[str, object]] = {}
    for name, value in values_of(config).items():
        section, key = name.split(".")
        if value is not None:
            sections.setdefault(section, {})[key] = list(value) if isinstance(value, tuple) else value
    with whole_file(path) as file:
        file.write((_HEADER + tomli_w.dumps(sections)).encode())


def _presets() -> dict[str, Traversable]:
    folder = files("launch") / "presets"  # beside tpnet_dist, in a checkout and in a wheel alike
    found = {Path(entry.name).stem: entry for entry in folder.iterdir() if entry.name.endswith(".toml")}
    return dict(sorted(found.items()))


def _layer(content: bytes, where: str) -> Layer:
    try:
        tree = tomllib.loads(content.decode())
    except ValueError as error:  # not UTF-8, not TOML
        raise InputError(f"{where}: not valid TOML: {error}; mend it there") from error
    try:
        return FileLayer({name: _value(name, value) for name, value in _flat(tree).items()}, where)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _flat(tree: dict[str, object], prefix: str = "") -> Layer:
    entries: Layer = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            entries |= _flat(value, f"{prefix}{name}.")
        else:
            entries[prefix + name] = value
    return entries


def _value(name: str, value: object) -> object:
    if name not in CONFIG_KEYS:
        raise InputError(f"unknown key {name}; {did_you_mean(name, CONFIG_KEYS)}")
    return CONFIG_KEYS[name].from_toml(value)
