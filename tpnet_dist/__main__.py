"""`tpnet COMMAND …`, or `python -m tpnet_dist COMMAND …`: all commands by one name."""

import sys
from dataclasses import dataclass
from importlib import import_module

from tpnet_dist.config.keys import did_you_mean
from tpnet_dist.errors import InputError, errors_for_people, spoken_as

PROGRAM = "tpnet"


@dataclass(frozen=True)
class Subcommand:
    """Says where a command is, whose `main()` reads the arguments after its name."""

    module: str
    about: str


SUBCOMMANDS = {
    "prep": Subcommand(
        "data_prep.__main__", "files of events to a data folder: convert, append, describe, synth"
    ),
    "train": Subcommand("tpnet_dist.train", "train a model on a data folder"),
    "tune": Subcommand("tpnet_dist.tune", "train once for each combination of settings, and compare"),
    "evaluate": Subcommand("tpnet_dist.evaluate_command", "evaluate a run anew, against other negatives"),
    "predict": Subcommand("tpnet_dist.predict", "score links, or find the best ones"),
    "serve": Subcommand("tpnet_dist.serve", "answer questions about links over HTTP, and take new events"),
    "report": Subcommand("tpnet_dist.report.__main__", "what runs came to, as one HTML page"),
    "runs": Subcommand("tpnet_dist.runs", "a table of runs: settings, state, figures"),
    "plan": Subcommand("tpnet_dist.plan", "whether a log fits, and how long it will take"),
    "doctor": Subcommand("tpnet_dist.doctor", "whether this machine trains as it should"),
    "version": Subcommand("tpnet_dist.version", "versions of what is installed, and which devices there are"),
}
_WITH_DASHES = {"--version": "version", "-V": "version"}


def main() -> None:
    """Run the command that is named first."""
    name, *args = [*sys.argv[1:], ""][: max(1, len(sys.argv) - 1)]
    name = _WITH_DASHES.get(name, name)
    if name in ("", "-h", "--help", "help"):
        print(_overview())
        return
    with errors_for_people(PROGRAM, debug=False):
        if name not in SUBCOMMANDS:
            raise InputError(f"unknown command {name}; {did_you_mean(name, SUBCOMMANDS)}")
    sys.argv = [f"{PROGRAM} {name}", *args]
    with spoken_as(f"{PROGRAM} {name}"):
        import_module(SUBCOMMANDS[name].module).main()


def _overview() -> str:
    width = max(map(len, SUBCOMMANDS))
    lines = [f"  {name:{width}}  {command.about}" for name, command in SUBCOMMANDS.items()]
    return "\n".join(
        [
            f"usage: {PROGRAM} COMMAND …, and {PROGRAM} COMMAND --help for what it takes",
            "",
            *lines,
            "",
            f"Begin with: {PROGRAM} train, which trains on a small built-in log",
        ]
    )


if __name__ == "__main__":
    main()
