"""`python docs/write_configuration.py`: write configuration.md anew from the dataclasses of settings."""

import dataclasses
from pathlib import Path

from docstring_parser import parse_from_object

from tpnet_dist.config import Config
from tpnet_dist.config_keys import CONFIG_KEYS, Key, changes_no_result, values_of

PAGE = Path(__file__).with_name("configuration.md")
_KINDS = {bool: "`True`, `False`", int: "whole number", float: "number", str: "text"}
_HEAD = """\
# All settings

Written by `python docs/write_configuration.py` from `tpnet_dist/config.py`; a test holds that it is current.

A setting is a key of a TOML file (`--config run.toml`, `[memory]` then `hops = 2`) and a flag
(`--memory.hops 2`; dashes and underscores are alike). TOML writes `true`, `false` and lists as `[0, 1, 2]`.
Defaults are changed by `--preset`, then by `--config`, then by flags. A run keeps all of them in its
`config.toml`. ○ marks what may always change when a run goes on: it changes results by rounding at most,
unless a DeepSpeed JSON turns bf16 on. `training.epochs`, `training.patience` and `training.max_steps` may
change too, as long as the run is not finished. Not settings but words of `train` are `--preset`, `--config`,
`--run-dir`, `--fresh`, `--check`, `--profile` and `--debug`; `--help` explains them.
"""


def page() -> str:
    """The whole page: a table for each section."""
    return "\n".join([_HEAD, *(_section(section) for section in dataclasses.fields(Config))])


def _section(section: "dataclasses.Field[object]") -> str:
    group = section.default_factory
    assert isinstance(group, type)
    described = parse_from_object(group)
    texts = {param.arg_name: param.description or "" for param in described.params}
    rows = [_row(f"{section.name}.{name}", text) for name, text in texts.items()]
    assert len(rows) == len(dataclasses.fields(group)), f"{group.__name__}: a setting is not described"
    title = f"## {section.name}\n\n{described.short_description}\n"
    return "\n".join([title, "| key | values | default | |", "|---|---|---|---|", *rows, ""])


def _row(name: str, text: str) -> str:
    mark = " ○" if changes_no_result(name) else ""
    default = values_of(Config())[name]
    return f"| `{name}`{mark} | {_values(CONFIG_KEYS[name])} | {_shown(default)} | {' '.join(text.split())} |"


def _values(key: Key) -> str:
    if not key.choices:
        return _KINDS[key.kind] + "s" * key.is_list
    return "some of " * key.is_list + ", ".join(f"`{choice}`" for choice in key.choices)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(f"`{item}`" for item in value) or "none"
    return "" if value is None or value == "" else f"`{value}`"


if __name__ == "__main__":
    PAGE.write_text(page())
