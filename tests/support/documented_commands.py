"""The commands that the README and docs/ show, and how tests run each of them: small, on CPU ranks."""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.end_to_end import test_launch_files
from tests.support.command_line import ROOT

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`]+)`")
_PROGRAM = re.compile(
    r"(?:/usr/bin/time .*)?(?:python3? -|torchrun |tpnet |sbatch |launch/\w+\.sh |(?:pre|tr)\w+ .*--)"
)
_PLACEHOLDER = re.compile(r"…|(?<![\w=])[A-Z]+(?![\w=])")

SET_UP = ("make ", "source ", "pip install ", "playwright install ")
"""Beginnings of commands that whoever runs tests has run, or `make demo` itself."""
RUN_ELSEWHERE = {
    "launch/several_nodes.sh": test_launch_files.test_two_nodes_train_as_one_does,
    "launch/deepspeed.sh": test_launch_files.test_deepspeeds_launcher_trains_and_goes_on_after_a_kill,
    "sbatch": test_launch_files.test_slurm_starts_one_torchrun_per_node_that_meet_on_the_first,
}
"""Beginnings of commands that take another machine or launcher, and the test that runs the like."""

_SMALL_MODEL = {
    "--memory.width": "16",
    "--model.neighbors": "4",
    "--model.time-width": "8",
    "--model.channels": "16",
    "--model.mixer-layers": "1",
    "--training.batch-size": "50",
    "--training.epochs": "1",
    "--training.max-steps": "4",
}
_SMALL_STUDY = {
    "--epochs": "1",
    "--config": "small.toml",
    "--seeds": "0",
    "--variants": "'without time'",
    "--widths": "1",
    "--decays": "1e-5",
    "--models": "tpnet",
}
LARGER = "larger"
"""A log with some batches of 200 to train on."""
_SMALL_TIMESCALES = {
    "--data": "data/uci",
    "--epochs": "1",
    "--seeds": "0",
    "--grid": "1e-6",
    "--args='--config small.toml'": "",
    "--edges": "1e4",
    "--steps": "1",
    "--turns": "1",
}
_SMALLER: dict[str, dict[str, str]] = {
    "--continue-from": {},  # has the settings of the other run
    "-m tpnet_dist.train": _SMALL_MODEL,
    "tpnet train": _SMALL_MODEL,
    "tpnet tune": {name: value for name, value in _SMALL_MODEL.items() if name != "--model.neighbors"},
    "launch/one_node.sh": _SMALL_MODEL,
    "-m tpnet_dist.evaluate": {"--mrr-negatives": "5"},
    "tpnet evaluate": {"--mrr-negatives": "5"},
    "-m data_prep convert": {"--overwrite": ""},
    "tpnet prep convert": {"--overwrite": ""},
    "-m data_prep synth": {"--overwrite": "", "--events": "1e3"},
    "tpnet prep synth": {"--overwrite": "", "--events": "1e3"},
    # figures after each epoch are of other runs than those without
    "--curves": {**_SMALL_STUDY, "--out": "build/curves"},
    "-m benchmarks.accuracy": _SMALL_STUDY,
    "-m benchmarks.efficiency": {
        "--epochs": "1",
        "--config": "small.toml",
        "--models": "tpnet graphmixer",
        "--turns": "1",
        "--turn-steps": "1",
        "--cores": "1",
    },
    "--studies cost": _SMALL_TIMESCALES | {"--data": f"data/{LARGER}"},
    "-m benchmarks.timescales": _SMALL_TIMESCALES,
    "-m benchmarks.ablations data/uci": {"--epochs": "1"},
    "-m benchmarks.scalability": {"--edges": "2400", "--steps": "1", "--ranks": "1 2", "--device": "cpu"},
    "-m benchmarks.planner": {"--report-only": ""},
    "-m benchmarks.serving": {"--seconds": "1", "--observes": "50", "--clients": "4"},
    "-m benchmarks.train_step": {"--steps": "1", "--turns": "1", "--ranking": "5", "--ranking-events": "20"},
    "-m benchmarks.neighbors": {"--events": "1e4", "--nodes": "1e3"},
    "-m benchmarks.exchange": {
        "--events": "400",
        "--warm-up": "400",
        "--random-nodes": "0",
        "--ranks": "2",
    },
}
"""What each command's arguments are made to be, so that it takes seconds."""
_HERE = {
    "-m benchmarks.train_step --data data/uci ": f"-m benchmarks.train_step --data data/{LARGER} ",
    "-m benchmarks.efficiency --data data/uci ": f"-m benchmarks.efficiency --data uci=data/{LARGER} ",
    "one_node.sh gpu ": "one_node.sh 2 ",
    "-m benchmarks.ablations ": "-m benchmarks.ablations data/uci ",
    " -k learnable ": " --collect-only -k learnable ",
}
"""What is not at hand, or takes longer."""
SMALL_SETTINGS = (
    "[model]\nneighbors = 4\ntime_width = 8\nchannels = 16\nmixer_layers = 1\n[memory]\nwidth = 16\n"
)


@dataclass(frozen=True)
class Documented:
    """A command as a page shows it, without its comment."""

    page: str
    command: str

    def is_set_up(self) -> bool:
        return self.command.startswith(SET_UP)

    def elsewhere(self) -> Callable[..., None] | None:
        """The test that runs it, if the pages' test does not."""
        return next((test for start, test in RUN_ELSEWHERE.items() if self.command.startswith(start)), None)

    def small(self) -> str:
        """The command with its sizes made small, for a machine without GPUs."""
        first, *rest = self.command.split(" | ")
        for shown, here in _HERE.items():
            first = first.replace(shown, here)
        trains_nothing = "--runs" in first or "--check" in first
        changes = next((new for part, new in _SMALLER.items() if part in first), {})
        for flag, value in {} if trains_nothing else changes.items():
            first = _with(first, flag, value)
        # kept in the folder of the test, not among the project's results
        rest = [f"{part} --folder ." if "-m benchmarks.keep" in part else part for part in rest]
        return " | ".join([first, *rest])


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands_of(page: Path) -> list[Documented]:
    """In order; lines that a backslash continues are one."""
    text = "".join(blocks_of(page, "bash")).replace("\\\n", " ")
    commands = [re.sub(r"\s+# .*", "", line).strip() for line in text.splitlines()]
    name = str(page.relative_to(ROOT))
    return [Documented(name, re.sub(r" +", " ", command)) for command in commands if command]


def blocks_of(page: Path, language: str) -> list[str]:
    return [block for said, block in _FENCE.findall(page.read_text()) if said == language]


def mentioned_commands(page: Path) -> list[str]:
    """Commands in running text and in blocks of no language; not names of programs, nor forms to fill in."""
    text, _, _ = page.read_text().partition("\n## Map\n")
    lines = [line for block in blocks_of(page, "") for line in block.splitlines()]
    spans = [" ".join(span.split()) for span in _INLINE.findall(_FENCE.sub("", text))]
    shown = [args for args in lines + spans if _PROGRAM.match(args) and not _PLACEHOLDER.search(args)]
    return [args for args in shown if len(args.split()) > len(["python", "-m", "module"])]


def _with(command: str, flag: str, value: str) -> str:
    """The flag given that value, in the place where it is, or at the end."""
    args = shlex.split(command)
    if flag not in args:
        return f"{command} {flag} {value}".rstrip()
    place = args.index(flag)
    after = place + 1
    while after < len(args) and not args[after].startswith("--"):
        after += 1
    return shlex.join([*args[: place + 1], *value.split(), *args[after:]])
