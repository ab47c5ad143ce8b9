"""What a log that grows costs: a run goes on with its new events, beside one that begins anew.

    python -m benchmarks.going_on ../shared/data/uci/CollegeMsg.txt --preset uci --ranks 2
    python -m benchmarks.going_on ../shared/data/uci/CollegeMsg.txt --preset uci --appends 10 --whole
    python -m benchmarks.going_on events.csv --flags="--src who --dst whom" --epochs 10

The first --share of the file's lines is converted and trained on; the rest is appended, in --appends parts; a
run goes on from that one with --continue-epochs; another is trained on the grown log from scratch, and with
--whole one on the log that one conversion of everything makes. All are commands as users
give them, and AP is that on the test part of the grown log. Seconds are those of whole commands, with their
start and evaluation. Runs are kept in --out, which must not be there yet.
"""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table
from tyro.conf import FlagCreatePairsOff, Positional, arg

from benchmarks.measuring import StopWatch
from benchmarks.results_line import print_results_line
from benchmarks.study import launch
from tpnet_dist.errors import InputError, errors_for_people
from tpnet_dist.evaluation.results import Figures, SeedResults, read_results, settings_and_kinds

PROGRAM = "python -m benchmarks.going_on"


@dataclass(kw_only=True)
class Settings:
    """Which log, and how long."""

    raw: Annotated[Positional[Path], arg(metavar="FILE")]
    """Text with one event a line, in order of time."""
    flags: str = "--format snap"
    """Flags of `data_prep convert`, as one text."""
    has_header: bool = False
    """The first line names the columns."""
    preset: str | None = None
    """The preset of training."""
    share: float = 0.8
    """The share of events that are there at first."""
    appends: int = 1
    """The number of parts in which the rest is appended."""
    whole: bool = False
    """Also train from scratch on all events converted at once, whose nodes have other dense ids."""
    epochs: int = 5
    """Epochs of the first run, and of the one from scratch."""
    continue_epochs: int = 1
    ranks: int = 1
    args: str = "--training.precision bfloat16"
    """Further arguments of all runs, as one text."""
    out: Path = Path("build/going-on")
    debug: bool = False
    """Show the traceback of an error."""

    def check(self) -> None:
        if self.out.exists():
            raise InputError(f"{self.out}: is there already; choose another --out or remove it")
        if not 0 < self.share < 1:
            raise InputError(f"--share is {self.share}, but must be between 0 and 1; correct it")
        if self.appends < 1:
            raise InputError(f"--appends is {self.appends}, but must be at least 1; raise it")
        if not self.raw.is_file():
            raise InputError(f"{self.raw}: no such file; check the path")


@dataclass(frozen=True)
class Stage:
    """One command; AP by setting and negatives, where it has some."""

    name: str
    seconds: float
    test_ap: dict[str, float]


def run_stages(settings: Settings) -> list[Stage]:
    out, log = settings.out, settings.out / "log"
    first, *rest = _split(settings)
    old, following, scratch = (out / name for name in ("first", "following", "scratch"))
    epochs = ["--training.epochs", str(settings.epochs)]
    stages = [
        _stage("convert", _data_prep("convert", first, log, *shlex.split(settings.flags))),
        _stage("train on the first part", _train(settings, log, old, epochs)),
        *(_stage(f"append {part.stem}", _data_prep("append", part, log)) for part in rest),
    ]
    goes_on = ["--continue-from", str(old), "--training.epochs", str(settings.continue_epochs)]
    seconds = _seconds(_train(settings, log, following, goes_on, is_new=False))
    figures = _figures(following)
    assert figures.before is not None, "the run went on from another"
    stages += [
        Stage("before: the first run's weights", 0.0, _ap(figures.before["test"])),
        Stage(f"after, {settings.continue_epochs} epochs on", seconds, _ap(figures.test)),
    ]
    stages.append(_trained(f"{settings.epochs} epochs from scratch", settings, log, scratch, epochs))
    if settings.whole:
        everything = out / "everything"
        flags = shlex.split(settings.flags)
        stages.append(_stage("convert everything", _data_prep("convert", settings.raw, everything, *flags)))
        name = f"{settings.epochs} epochs on everything"
        stages.append(_trained(name, settings, everything, out / "whole", epochs))
    return stages


def _trained(name: str, settings: Settings, log: Path, run: Path, epochs: Sequence[str]) -> Stage:
    seconds = _seconds(_train(settings, log, run, epochs))
    return Stage(name, seconds, _ap(_figures(run).test))


def _split(settings: Settings) -> list[Path]:
    """Write files of its lines, with the line of names in each."""
    lines = settings.raw.read_text().splitlines(keepends=True)
    names, events = lines[: settings.has_header], lines[settings.has_header :]
    first = round(len(events) * settings.share)
    borders = [0, *np.linspace(first, len(events), settings.appends + 1).astype(int)]
    settings.out.mkdir(parents=True)
    paths = []
    for number, (start, stop) in enumerate(pairwise(borders)):
        paths.append(settings.out / f"part-{number}.txt")
        paths[-1].write_text("".join([*names, *events[start:stop]]))
    return paths


def _data_prep(*args: object) -> list[str]:
    return [sys.executable, "-m", "data_prep", *map(str, args)]


def _train(
    settings: Settings, log: Path, run: Path, more: Sequence[str], *, is_new: bool = True
) -> list[str]:
    """Return the command. `is_new`: what goes on from another run has its settings."""
    preset = ["--preset", settings.preset] if settings.preset and is_new else []
    args = [str(log), *preset, *(shlex.split(settings.args) if is_new else ()), *more]
    return launch([*args, "--run-dir", str(run)], settings.ranks)


def _stage(name: str, command: Sequence[str]) -> Stage:
    return Stage(name, _seconds(command), {})


def _seconds(command: Sequence[str]) -> float:
    watch = StopWatch()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if ": error: " in line] or [done.stderr[-500:]]
        raise InputError(f"{shlex.join(command)} failed: {said[-1]}; correct --flags or --args")
    return round(watch.lap(), 1)


def _figures(run: Path) -> SeedResults:
    results = read_results(run)
    assert results is not None, f"{run} is finished"
    return next(iter(results.seeds.values()))


def _ap(figures: Figures) -> dict[str, float]:
    return {f"{setting}, {kind}": round(each["ap"], 4) for setting, kind, each in settings_and_kinds(figures)}


def print_table(stages: Sequence[Stage]) -> None:
    kinds = list(dict.fromkeys(kind for stage in stages for kind in stage.test_ap))
    table = Table("", title="A log that grows: test AP on the grown log")
    for heading in ("seconds", *kinds):
        table.add_column(heading, justify="right")
    for stage in stages:
        shown = (f"{stage.test_ap[kind]:.4f}" if kind in stage.test_ap else "" for kind in kinds)
        table.add_row(stage.name, f"{stage.seconds:,.1f}" if stage.seconds else "", *shown)
    Console().print(table)


def main() -> None:
    settings = tyro.cli(Settings, prog=PROGRAM, description=__doc__, config=(FlagCreatePairsOff,))
    with errors_for_people(PROGRAM, debug=settings.debug):
        settings.check()
        stages = run_stages(settings)
        print_table(stages)
        print_results_line("going_on", {"stages": [asdict(stage) for stage in stages]})


if __name__ == "__main__":
    main()
