"""`python -m data_prep convert | append | describe | synth`."""

import sys
from dataclasses import MISSING, fields

import tyro
from tyro.conf import FlagCreatePairsOff

from data_prep.append_command import Append
from data_prep.convert_command import Convert
from data_prep.describe_command import Describe
from data_prep.synth_command import Synth
from tpnet_dist.config.args import CommandLine
from tpnet_dist.config.keys import did_you_mean, keys_of
from tpnet_dist.errors import InputError, errors_for_people, spoken

PROGRAM = "python -m data_prep"

Command = Convert | Append | Describe | Synth
COMMANDS: dict[str, type[Command]] = {
    "convert": Convert,
    "append": Append,
    "describe": Describe,
    "synth": Synth,
}
POSITIONALS = {
    "convert": ("paths", "input files and output folder"),
    "append": ("paths", "input files and data folder"),
    "synth": ("out", "output"),
    "describe": ("folder", "data folder"),
}
"""The arguments that follow no flag: whose they are, and what people call them."""


def main() -> None:
    """Turn raw event files into data folders, append to them, describe them, make synthetic ones."""
    with errors_for_people(PROGRAM, debug="--debug" in sys.argv):
        parse(sys.argv[1:]).run()


def parse(args: list[str]) -> Command:
    """Parse the arguments; InputError with one sentence where they cannot be used."""
    if "-h" in args or "--help" in args:
        tyro.cli(
            Convert | Append | Describe | Synth,
            prog=spoken(PROGRAM),
            description=main.__doc__,
            args=args,
            config=(FlagCreatePairsOff,),
        )
    if not args:
        raise InputError(
            f"no command is given; write {', '.join(COMMANDS)} or --help after {spoken(PROGRAM)}"
        )
    name, *rest = args
    if name not in COMMANDS:
        raise InputError(f"unknown command {name}; {did_you_mean(name, COMMANDS)}")
    command, (positional_key, positional_name) = COMMANDS[name], POSITIONALS[name]
    keys = keys_of(command)
    switches = frozenset(key.name for key in keys.values() if key.kind is bool)
    said = CommandLine(keys, switches, positional_key, positional_name).read(rest)
    for field in fields(command):
        if field.default is MISSING and field.name not in said:
            what = positional_name if field.name == positional_key else f"--{field.name}"
            raise InputError(f"{name}: no {what} given; write it, or see {spoken(PROGRAM)} {name} --help")
    return command(**said)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
