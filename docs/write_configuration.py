"""`python docs/write_configuration.py`: write configuration.md anew from the dataclasses of settings."""

import dataclasses
from pathlib import Path
from typing import get_type_hints

from docstring_parser import parse_from_object

from tpnet_dist.config.keys import Key, changes_no_result, keys_of
from tpnet_dist.config.model_configs import model_config_type, model_names
from tpnet_dist.config.schema import Config, ModelConfig

PAGE = Path(__file__).with_name("configuration.md")
_KINDS = {bool: "`True`, `False`", int: "whole number", float: "number", str: "text"}
_HEAD = """\
# All settings

Written by `python docs/write_configuration.py` from the dataclasses of settings; a test holds it current.

A setting is a key of a TOML file (`--config run.toml`, `[memory]` then `hops = 2`) and a flag
(`--memory.hops 2`; dashes and underscores are alike). TOML writes `true`, `false` and lists as `[0, 1, 2]`.
Defaults are changed by `--preset`, then by `--config`, then by flags. A run keeps all of them in its
`config.toml`. ○ marks what may always change when a run goes on: it changes results by rounding at most,
unless a DeepSpeed JSON turns bf16 on. `training.epochs`, `training.patience` and `training.max_steps` may
change too, as long as the run is not finished. Not settings but flags of `train` are `--preset`, `--config`,
`--run-dir`, `--fresh`, `--check`, `--profile`, `--ranks`, `--restarts`, `--log` and `--debug`; `--help`
explains them.
"""


def page() -> str:
    """The whole page: a table for each section, of models one for each."""
    groups = {name: hint for name, hint in get_type_hints(Config).items() if hint is not ModelConfig}
    sections = [_section(name, group, name) for name, group in groups.items()]
    models = [_section("model", model_config_type(name), f"model: {name}") for name in model_names()]
    return "\n".join([_HEAD, *sections, *models])


def _section(section: str, group: type, title: str) -> str:
    described = parse_from_object(group)
    texts = {param.arg_name: param.description or "" for param in described.params}
    for base in group.__mro__[1:-1]:
        texts |= {
            param.arg_name: param.description or ""
            for param in parse_from_object(base).params
            if param.arg_name not in texts
        }
    defaults = {field.name: getattr(group(), field.name) for field in dataclasses.fields(group)}
    keys = keys_of(group)
    rows = [_row(f"{section}.{name}", keys[name], defaults[name], texts[name]) for name in defaults]
    head = f"## {title}\n\n{described.short_description}\n"
    return "\n".join([head, "| key | values | default | |", "|---|---|---|---|", *rows, ""])


def _row(name: str, key: Key, default: object, text: str) -> str:
    mark = " ○" if changes_no_result(name) else ""
    return f"| `{name}`{mark} | {_values(key)} | {_shown(default)} | {' '.join(text.split())} |"


def _values(key: Key) -> str:
    if key.may_be_list:
        words = "".join(f" or `{word}`" for word in key.words)
        return f"{_KINDS[key.kind]}, or several with commas{words}"
    if not key.choices:
        return _KINDS[key.kind] + "s" * key.is_list
    return "some of " * key.is_list + ", ".join(f"`{choice}`" for choice in key.choices)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(f"`{item}`" for item in value) or "none"
    return "" if value is None or value == "" else f"`{value}`"


if __name__ == "__main__":
    PAGE.write_text(page())
