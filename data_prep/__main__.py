"""`python -m data_prep convert | synth | describe`."""

import sys
from dataclasses import MISSING, fields

import tyro
from tyro.conf import FlagCreatePairsOff

from data_prep.convert_command import Convert
from data_prep.describe_command import Describe
from data_prep.synth_command import Synth
from tpnet_dist.config.args import CommandWords
from tpnet_dist.config.keys import did_you_mean, keys_of
from tpnet_dist.errors import InputError, errors_for_people

PROGRAM = "python -m data_prep"

Command = Convert | Synth | Describe
COMMANDS: dict[str, type[Command]] = {"convert": Convert, "synth": Synth, "describe": Describe}
BARE_WORDS = {
    "convert": ("paths", "input files and output folder"),
    "synth": ("out", "output"),
    "describe": ("folder", "data folder"),
}
"""The words that follow no flag: whose they are, and what people call them."""


def main() -> None:
    """Turn raw event files into data folders, make synthetic ones, describe them."""
    with errors_for_people(PROGRAM, debug="--debug" in sys.argv):
        parse(sys.argv[1:]).run()


def parse(words: list[str]) -> Command:
    """InputError with one sentence where the words cannot be used."""
    if "-h" in words or "--help" in words:
        tyro.cli(
            Convert | Synth | Describe,
            prog=PROGRAM,
            description=main.__doc__,
            args=words,
            config=(FlagCreatePairsOff,),
        )
    if not words:
        raise InputError(f"no command is given; write {', '.join(COMMANDS)} or --help after {PROGRAM}")
    name, *rest = words
    if name not in COMMANDS:
        raise InputError(f"unknown command {name}; {did_you_mean(name, COMMANDS)}")
    command, (bare_key, bare_name) = COMMANDS[name], BARE_WORDS[name]
    keys = keys_of(command)
    switches = frozenset(key.name for key in keys.values() if key.kind is bool)
    said = CommandWords(keys, switches, bare_key, bare_name).read(rest)
    for field in fields(command):
        if field.default is MISSING and field.name not in said:
            what = bare_name if field.name == bare_key else f"--{field.name}"
            raise InputError(f"{name}: no {what} given; write it, or see {PROGRAM} {name} --help")
    return command(**said)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
