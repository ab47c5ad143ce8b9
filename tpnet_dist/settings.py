"""`python -m tpnet_dist.train`: from the words of its command line to the settings of a run.

Words are read here and not by tyro, so that flags and TOML entries are refused in the same single sentence;
tyro shows `--help`, from the same dataclasses.
"""

import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, NoReturn

import tyro
from tyro.conf import FlagConversionOff, FlagCreatePairsOff, Positional, arg

from tpnet_dist.config import Config
from tpnet_dist.config_file import read_layer, read_preset
from tpnet_dist.config_keys import CONFIG_KEYS, Key, Layer, config_from, did_you_mean, keys_of
from tpnet_dist.errors import InputError

PROGRAM = "python -m tpnet_dist.train"
BUILTIN_PRESET = "social"
"""Of the built-in log."""


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """All that the command line, the file and the preset say."""

    config: Config
    run_dir: Path | None
    check: bool
    debug: bool


@dataclass(kw_only=True)
class OwnFlags:
    """The flags that are no keys of a configuration."""

    preset: Annotated[str | None, arg(metavar="NAME")] = None
    """Settings of one of the paper's datasets: can_parl, contact, enron, flights, lastfm, mooc, reddit,
    social (the built-in log), social_evo, uci, un_trade, un_vote, us_legis, wikipedia."""
    config: Annotated[Path | None, arg(metavar="FILE.toml")] = None
    """A TOML file of settings, such as the config.toml of an earlier run."""
    run_dir: Annotated[Path | None, arg(metavar="DIR")] = None
    """Where the run is kept; if it holds an interrupted run, that one goes on."""
    check: bool = False
    """Check data and settings, say what the run will take, and stop."""
    debug: bool = False
    """Show the traceback of an error."""


@dataclass(kw_only=True)
class TrainCommand(OwnFlags):
    """Train TPNet on a data folder; without one, on a small built-in log.

    Defaults are changed by --preset, then by --config, then by flags. Every dotted flag is also a TOML key:
    --training.batch-size 400 is batch_size = 400 under [training]. It may be written --training.batch_size,
    --training.batch_size=400 or training.batch_size=400. Whole numbers may be written 1e6, lists 0 1 2 or
    [0,1,2]; a list ends at the next flag, so the data folder comes first.

    Example: torchrun --nproc_per_node=4 -m tpnet_dist.train data/uci --preset uci --training.seeds 0 1 2
    """

    data_dir: Annotated[Positional[str], arg(metavar="[DATA_DIR]")] = ""
    """The data folder, as --data.folder."""
    keys: Annotated[FlagConversionOff[Config], arg(name="")] = field(default_factory=Config)


OWN_KEYS = keys_of(OwnFlags)
KEYS = OWN_KEYS | CONFIG_KEYS

_SECTIONS = "|".join(section.name for section in fields(Config))
_FLAG = re.compile(rf"--|-[a-zA-Z]|({_SECTIONS})\.[\w.-]+=")  # -1 is a number


def parse_train(words: list[str]) -> TrainSettings:
    """The settings `words` ask for; InputError with one sentence where they cannot be used."""
    if "-h" in words or "--help" in words:
        show_help()
    said = read_words(words)
    own = OwnFlags(**{name: said.pop(name) for name in OWN_KEYS if name in said})  # type: ignore[arg-type]
    layers: list[Layer] = [read_layer(own.config)] if own.config is not None else []
    if own.preset is not None:
        layers.insert(0, read_preset(own.preset))
    elif not any(layer.get("data.folder") for layer in [*layers, said]):
        layers.insert(0, read_preset(BUILTIN_PRESET))
    return TrainSettings(
        config=config_from([*layers, said]), run_dir=own.run_dir, check=own.check, debug=own.debug
    )


def show_help() -> NoReturn:
    tyro.cli(TrainCommand, prog=PROGRAM, args=["--help"], config=(FlagCreatePairsOff,))
    raise AssertionError("tyro shows the help and exits")


def read_words(words: list[str]) -> Layer:
    """What each flag says, by key; the data folder is the word without one."""
    said: Layer = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not _FLAG.match(word):
            if "data.folder" in said:
                raise InputError(f"{word}: the data folder is {said['data.folder']} already; give one")
            said["data.folder"] = word
            continue
        name, equals, value = word.partition("=")
        key = _key(name)
        if key.name in OWN_KEYS and key.kind is bool:
            if equals:
                raise InputError(f"{word}: {name} takes no value; leave {value} away")
            said[key.name] = True
            continue
        values = [value] if equals else _take_values(key, rest)
        if not values:
            raise InputError(f"{name} has no value; write one after it")
        said[key.name] = key.from_words(values)
    return said


def _key(flag: str) -> Key:
    name = flag.lstrip("-").replace("-", "_")
    if name not in KEYS:
        raise InputError(f"unknown flag {flag}; {did_you_mean(name, KEYS, '--')}")
    return KEYS[name]


def _take_values(key: Key, rest: list[str]) -> list[str]:
    """The words that belong to a flag: one, or for a list all before the next flag."""
    values: list[str] = []
    while rest and not _FLAG.match(rest[0]) and (key.is_list or not values):
        values.append(rest.pop(0))
    return values
