"""The arguments of a command line, each read by its key: `--key value`, `--key=value`, `section.key=value`.

Read here and not by tyro, so that a bad argument gets one sentence, the same as from a TOML file; tyro shows
`--help`, from the same dataclasses.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path

from tpnet_dist.config.keys import Key, Layer, did_you_mean
from tpnet_dist.config.schema import Config
from tpnet_dist.errors import InputError

_SECTIONS = "|".join(section.name for section in fields(Config))
_FLAG = re.compile(rf"--|-[a-zA-Z]|({_SECTIONS})\.[\w.-]+=")  # -1 is a number


@dataclass(frozen=True)
class CommandLine:
    """The arguments that a command takes."""

    keys: Mapping[str, Key]
    switches: frozenset[str]
    """Keys that are true where they stand and take no value."""
    positional_key: str
    """The key of the argument that follows no flag, or of all such arguments if it is a list."""
    positional_name: str
    """The name that help and errors give it."""

    def read(self, args: list[str]) -> Layer:
        """Return what each flag says, by key."""
        if "--version" in args:
            print(f"tpnet_dist {version('tpnet-dist')}")
            raise SystemExit(0)
        said: Layer = {}
        rest = list(args)
        while rest:
            arg = rest.pop(0)
            if not _FLAG.match(arg):
                self._take_positional(arg, said)
                continue
            name, equals, value = arg.partition("=")
            key = self._key(name)
            if key.name in self.switches:
                if equals:
                    raise InputError(f"{arg}: {name} takes no value; leave {value} away")
                said[key.name] = True
                continue
            values = [value] if equals else _take_values(key, rest)
            if not values:
                raise InputError(f"{name} has no value; write one after it")
            said[key.name] = key.from_args(values)
        return said

    def _take_positional(self, arg: str, said: Layer) -> None:
        """Take one value, or for a list as many as there are, each as it stands: a path may hold spaces and
        commas."""
        key, before = self.keys[self.positional_key], said.get(self.positional_key)
        if before is not None and not key.is_list:
            raise InputError(f"{arg}: the {self.positional_name} is {before} already; give one")
        value = replace(key, is_list=False).from_args([arg])
        earlier = before if isinstance(before, tuple) else ()
        said[key.name] = (*earlier, value) if key.is_list else value

    def _key(self, flag: str) -> Key:
        name = flag.lstrip("-").replace("-", "_")
        if name not in self.keys:
            raise InputError(f"unknown flag {flag}; {did_you_mean(name, self.keys, '--{}'.format)}")
        return self.keys[name]


def flag_value(args: list[str], name: str) -> str | None:
    """Return what the last flag of this name says, if there is one."""
    value = None
    for number, arg in enumerate(args):
        flag, equals, said = arg.partition("=")
        is_flag = flag.startswith("--") or (equals and "." in flag)
        if is_flag and flag.lstrip("-").replace("-", "_") == name:
            value = said if equals else next(iter(args[number + 1 :]), None)
    return value


def _take_values(key: Key, rest: list[str]) -> list[str]:
    """Return the arguments that belong to a flag: one, or for a list all before the next flag."""
    values: list[str] = []
    while rest and not _FLAG.match(rest[0]) and (key.is_list or not values):
        values.append(rest.pop(0))
    return values


def require_place(path: Path, flag: str) -> None:
    """Check that a file can be put there, as far as names tell: long work is not to end in a refusal."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder where a file is wanted; choose another {flag}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no such folder to put it into; make it, or choose another {flag}")
