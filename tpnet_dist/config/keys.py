"""The keys of a dataclass as people write them: dotted names, and values from arguments or from TOML.

Flags and TOML files go through the same table, so a key has one name, one type and one sentence of refusal.
"""

import dataclasses
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from tpnet_dist.config.model_configs import DEFAULT_MODEL, model_config_type, model_names
from tpnet_dist.config.schema import Config, ModelConfig, SettingError
from tpnet_dist.config.whole_numbers import whole_number
from tpnet_dist.errors import InputError

Layer = dict[str, object]
"""Some keys of a run with their values: what a preset, a file or a command line says."""


class FileLayer(Layer):
    """The settings of a file or a preset, and which it is."""

    def __init__(self, values: Layer, where: str) -> None:
        super().__init__(values)
        self.where = where


_NO_EFFECT = {
    "memory.prefetch",
    "memory.rows_on",
    "memory.borrowed_rows",
    "memory.run_batches",
    "memory.catch_up",
    "training.engine",
    "training.deepspeed",
    "training.microbatches",
    "training.deterministic",
    "training.timeout",
    "training.triton",
}
RENAMED = {
    "memory.cache_rows": "memory.borrowed_rows",
    "training.portions": "training.microbatches",
}
"""Keys of before: checkpoints that have them are read, users are told the new name."""
_TRUTH = {"true": True, "false": False}
_RULES: dict[type, tuple[str, str, str]] = {
    bool: ("True or False", "True or False", "--help says what it does"),
    int: ("a whole number", "whole numbers", "write it like 20 or 1e6"),
    float: ("a number", "numbers", "write it like 0.5 or 1e-6"),
    str: ("text", "texts", "put it in quotes"),
    Path: ("a path", "paths", "put it in quotes"),
}
"""Rules for one value and for many, and how to write it."""
_TOML_TYPES: dict[type, tuple[type, ...]] = {bool: (bool,), int: (int, float), float: (int, float)}
_LARGEST = 2**63


@dataclass(frozen=True, kw_only=True)
class Key:
    """One setting: `training.seeds` is `int`, many of them."""

    name: str
    kind: type
    choices: tuple[str, ...] = ()
    is_list: bool = False
    is_optional: bool = False
    may_be_list: bool = False
    """Whether it is one value or several; as an argument several are one word, with commas."""
    words: tuple[str, ...] = ()
    """Words that may stand in place of a value."""

    def from_args(self, args: list[str]) -> object:
        """Return the value of the arguments after a flag."""
        if args[0] in self.words:
            return args[0]
        if not (self.is_list or self.may_be_list):
            return self._from_text(args[0])
        # [0,1,2] and "0, 1, 2" as well as 0 1 2
        items = " ".join(args).strip("[]() ").replace(",", " ").split()
        return self._one_or_all(tuple(self._from_text(item.strip("\"'")) for item in items))

    def _one_or_all(self, values: tuple[object, ...]) -> object:
        return values[0] if self.may_be_list and len(values) == 1 else values

    def from_toml(self, value: object) -> object:
        """Return the value of a TOML entry, which must be of the key's type."""
        if self.is_list and not isinstance(value, list):
            raise InputError(
                f"{self.name} is {value!r}, but must be a list such as [{value!r}]; put it in brackets"
            )
        if value in self.words:
            return value
        is_list = self.is_list or (self.may_be_list and isinstance(value, list))
        items: list[object] = value if is_list and isinstance(value, list) else [value]
        for item in items:
            if type(item) not in _TOML_TYPES.get(self.kind, (str,)):  # True is no number here
                raise self._refusal(item)
        read = tuple(self._from_text(str(item)) for item in items)
        return self._one_or_all(read) if is_list else read[0]

    def _from_text(self, text: str) -> object:
        if self.is_optional and self.kind in (int, float) and text.lower() == "none":
            return None
        if self.choices and text not in self.choices:
            raise self._refusal(text)
        try:
            return _read(self.kind, text)
        except OverflowError:
            raise InputError(f"{self.name} is {text}, but must be below 2^63; lower it") from None
        except (ValueError, KeyError):
            raise self._refusal(text) from None

    def _refusal(self, value: object) -> InputError:
        one, many, remedy = _RULES[self.kind]
        if self.choices:
            one, many = (f"{some} of {', '.join(self.choices)}" for some in ("one", "any"))
            remedy = "--help explains them"
        if self.may_be_list:
            one, remedy = f"{one}, {many} or {' or '.join(self.words)}", "write it like 1e-6 or [1e-7,1e-5]"
        if not self.choices and isinstance(value, str) and _reads(self.kind, value):  # in TOML
            remedy = "take the quotes away"
        verb, rule = ("holds", f"hold {many}") if self.is_list else ("is", f"be {one}")
        shown = repr(value) if isinstance(value, str) else str(value)
        return InputError(f"{self.name} {verb} {shown}, but must {rule}; {remedy}")


def keys_of(group: type, prefix: str = "", *, model: str = DEFAULT_MODEL) -> dict[str, Key]:
    """Return the keys of a dataclass and of the dataclasses in it, by dotted name; of models those of
    `model`."""
    keys: dict[str, Key] = {}
    for name, hint in get_type_hints(group).items():
        if get_origin(hint) is ClassVar:
            continue
        if hint is ModelConfig:
            hint = model_config_type(model)
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            keys |= keys_of(hint, f"{prefix}{name}.", model=model)
        else:
            keys[prefix + name] = _key(prefix + name, hint)
    return keys


def did_you_mean(name: str, known: Iterable[str], spelled: Callable[[str], str] = str) -> str:
    """Return the remedy for an unknown name: what it is called now, or the name most like it, perhaps without
    its section; or who has it, if only other models do. `spelled` as people write it there."""
    if name in RENAMED:
        return f"its name is {spelled(RENAMED[name])} now; write that"
    models = [model for model in model_names() if name in config_keys(model)]
    if name.startswith("model.") and models:
        return f"only {', '.join(models)} {'has' if len(models) == 1 else 'have'} it; leave it out"

    def likeness(candidate: str) -> float:
        forms = {candidate, candidate.rpartition(".")[2]}
        return max(SequenceMatcher(None, name, form).ratio() for form in forms)

    best = max(known, key=likeness)
    return f"did you mean {spelled(best)}?" if likeness(best) >= 0.5 else "--help lists what there is"


def require_no_seed_is_dropped(said: Layer) -> None:
    """Refuse a command line that gives both; files of runs hold every key, and several seeds beside the one
    they replace."""
    seed, seeds = said.get("training.seed"), said.get("training.seeds")
    if seed is not None and isinstance(seeds, tuple) and seeds and seed not in seeds:
        raise InputError(
            f"--training.seed is {seed}, but --training.seeds {' '.join(map(str, seeds))} would replace it; "
            f"add {seed} to these, or leave one of the two away"
        )


def config_from(layers: Iterable[Layer]) -> Config:
    """Return the defaults, changed by the layers in turn."""
    values: Layer = {}
    origins: dict[str, str] = {}
    for layer in layers:
        if "training.seed" in layer and "training.seeds" not in layer:
            values["training.seeds"] = ()  # one seed, said later, replaces several
        values |= layer
        origins |= dict.fromkeys(layer, layer.where if isinstance(layer, FileLayer) else "")
    try:
        return _config_of(values)
    except SettingError as error:
        # of two keys that do not go together, only if no other place said one of them
        places = {origins[key] for key in error.keys if key in origins}
        where = places.pop() if len(places) == 1 else ""
        raise InputError(f"{where}: {error}" if where else str(error)) from error


def _config_of(values: Layer) -> Config:
    sections: dict[str, Any] = {}
    for section, group in get_type_hints(Config).items():
        if group is ModelConfig:
            group = model_config_type(values.get("model.name", DEFAULT_MODEL))
        said = {
            name.removeprefix(f"{section}."): value
            for name, value in values.items()
            if name.startswith(f"{section}.")
        }
        sections[section] = group(**said)
    return Config(**sections)


def values_of(config: Config) -> Mapping[str, object]:
    """Return every key of `config` with its value."""
    return {
        f"{section.name}.{field.name}": getattr(getattr(config, section.name), field.name)
        for section in dataclasses.fields(config)
        for field in dataclasses.fields(getattr(config, section.name))
    }


def defaults_for(config: Config) -> Mapping[str, object]:
    """Return every key with its default, for the model of `config`."""
    return values_of(Config(model=type(config.model)()))


def _read(kind: type, text: str) -> object:
    if kind is bool:
        return _TRUTH[text.lower()]
    if kind is not int:
        return kind(text)
    number = whole_number(text)
    if abs(number) >= _LARGEST:
        raise OverflowError(text)
    return number


def _reads(kind: type, text: str) -> bool:
    try:
        _read(kind, text)
    except (ValueError, KeyError, OverflowError):
        return False
    return True


def _key(name: str, hint: Any) -> Key:  # noqa: ANN401 — type hints have no common type
    parts = get_args(hint)
    if get_origin(hint) is tuple:
        return dataclasses.replace(_key(name, parts[0]), is_list=True)
    if get_origin(hint) in (Union, types.UnionType):
        inner, *others = (part for part in parts if part is not types.NoneType)
        words = tuple(word for part in others if get_origin(part) is Literal for word in get_args(part))
        return dataclasses.replace(
            _key(name, inner),
            is_optional=types.NoneType in parts,
            may_be_list=any(get_origin(part) is tuple for part in others),
            words=words,
        )
    if get_origin(hint) is Literal:
        return Key(name=name, kind=str, choices=parts)
    assert hint in _RULES, f"{name}: no rule for {hint}"
    return Key(name=name, kind=hint)


@cache
def config_keys(model: str = DEFAULT_MODEL) -> Mapping[str, Key]:
    """Return every key of a run of this model."""
    keys = keys_of(Config, model=model)
    return {**keys, "model.name": dataclasses.replace(keys["model.name"], choices=model_names())}


def changes_no_result(key: str) -> bool:
    """Return whether two runs that differ in this key come to the same."""
    return key in _NO_EFFECT or key.startswith("checkpoint.")
