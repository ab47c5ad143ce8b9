"""A command made of its arguments: a dataclass whose fields are its flags, and one of them follows none."""

from dataclasses import MISSING, dataclass, fields
from typing import Generic, TypeVar

import tyro
from tyro.conf import FlagCreatePairsOff

from tpnet_dist.config.args import CommandLine
from tpnet_dist.config.keys import keys_of
from tpnet_dist.errors import InputError, spoken

Command = TypeVar("Command")


@dataclass(frozen=True)
class CommandParser(Generic[Command]):
    """Reads the arguments of one program."""

    command: type[Command]
    program: str
    positional_key: str
    """The field of the argument that follows no flag."""
    positional_name: str
    """The name that errors give it."""

    def parse(self, args: list[str]) -> Command:
        """Return what the arguments say; InputError with one sentence where they cannot be used."""
        if "-h" in args or "--help" in args:
            tyro.cli(self.command, prog=spoken(self.program), args=["--help"], config=(FlagCreatePairsOff,))
        defaults = {field.name: field.default for field in fields(self.command)}  # type: ignore[arg-type]
        switches = frozenset(name for name, default in defaults.items() if default is False)
        line = CommandLine(keys_of(self.command), switches, self.positional_key, self.positional_name)
        said = line.read(args)
        if defaults[self.positional_key] is MISSING and self.positional_key not in said:
            raise InputError(f"no {self.positional_name} is given; name the folder of one, or see --help")
        return self.command(**said)
