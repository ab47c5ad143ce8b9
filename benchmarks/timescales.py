"""What several timescales bring and cost: accuracy against every single λ of a grid, and time and bytes.

    python -m benchmarks.timescales --data data/uci data/bitcoinotc --epochs 5 --seeds 0 1
    python -m benchmarks.timescales --data data/can_parl --batching timestamps
    python -m benchmarks.timescales --studies cost --data data/uci

Accuracy: each log is trained with its preset's λ (where it has a preset), with `memory.decay auto`, with each
λ of --grid, and for --ablations with three timescales and with products across timescales. Each seed of each
is a run of its own by `torchrun -m tpnet_dist.train`, kept in the folder of --out: the same command goes on
where it was, and repeats no run that is finished; with --minutes it stops in time. --args are further
arguments of all runs.

Cost: recording and training with 1, 2 and 3 timescales by turns in one process of one thread, in seconds of
the processor's time, since others may be at work.
"""

import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table
from tyro.conf import FlagCreatePairsOff, arg

from benchmarks.results_line import print_results_line
from benchmarks.study import StudyRun, leave_without_results, require_positive, train_all
from benchmarks.study_logs import StudyLog, dataset_of
from benchmarks.timescale_cost import measure_costs
from benchmarks.variants import WHOLE
from tpnet_dist.batches.run_data import split_of
from tpnet_dist.config.schema import Batching, DataConfig
from tpnet_dist.config.toml_files import preset_names
from tpnet_dist.config.whole_numbers import Count
from tpnet_dist.errors import InputError, errors_for_people
from tpnet_dist.evaluation.results import Figures, read_results
from tpnet_dist.events.manifest import read_manifest
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.timescales import timescales_of
from tpnet_dist.files.progress import display_for

PROGRAM = "python -m benchmarks.timescales"
AUTO, PRESET, THREE, CROSS = "auto", "preset", "three timescales", "products across timescales"
ALLOWED_BELOW = 0.003
"""AP that `auto` may lie below the grid's best, if it is to be the default."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The logs, and what is measured on them."""

    data: Annotated[tuple[str, ...], arg(metavar="DIR …")]
    """Data folders; PRESET=DIR for one with another name than its preset."""
    studies: tuple[Literal["accuracy", "cost"], ...] = ("accuracy",)
    seeds: tuple[int, ...] = (0, 1)
    epochs: int = 5
    grid: tuple[float, ...] = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
    """Single λ to compare with, per second."""
    ablations: bool = False
    batching: Batching = "events"
    ranks: int = 1
    """The number of ranks of each run."""
    minutes: float | None = None
    """The most minutes that it may take; runs have equal shares, and go on the next time."""
    args: str = "--training.precision bfloat16"
    """Arguments of all runs, as one text."""
    out: Path = Path("build/timescales")
    """The folder of the runs."""
    edges: Count = 1_000_000
    """The edges of the random graph that is recorded for the cost."""
    steps: int = 3
    """Training steps of each turn of the cost."""
    turns: int = 5
    """Counted turns of the cost; one more comes first."""
    debug: bool = False
    """Show the traceback of an error."""

    def check(self) -> None:
        if not self.data or not self.seeds or not self.grid:
            raise InputError("--data, --seeds or --grid is empty, but must name something; leave it away")
        require_positive(
            epochs=self.epochs, ranks=self.ranks, steps=self.steps, turns=self.turns, minutes=self.minutes
        )


@dataclass(frozen=True)
class TimescaleRun(StudyRun):
    """One seed of one choice of timescales on one log, which need not have a preset."""

    choice: str

    def __str__(self) -> str:
        return f"{self.log.preset}, {self.choice}, seed {self.seed}"

    def _base_args(self) -> list[str]:
        preset = ["--preset", self.log.preset] if self.log.preset in preset_names() else []
        return [str(self.log.folder), *preset, *self.common_args]

    def figures(self) -> tuple[Figures, Figures]:
        """Return the figures of validation and test at the best epoch."""
        results = read_results(self.path)
        assert results is not None, f"{self.path} is finished"
        return results.seeds[self.seed].val, results.seeds[self.seed].test


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of a choice on a log: AP against random negatives, mean over seeds."""

    log: str
    batching: str
    choice: str
    seeds: int
    val: float
    test: float
    inductive_test: float | None


def main() -> None:
    settings = tyro.cli(Settings, prog=PROGRAM, description=__doc__, config=(FlagCreatePairsOff,))
    results: dict[str, Any] = {}
    with errors_for_people(PROGRAM, debug=settings.debug):
        settings.check()
        logs = [_log_at(place) for place in settings.data]
        if "accuracy" in settings.studies:
            results |= study(settings, logs)
        if "cost" in settings.studies:
            costs = measure_costs(logs[0].folder, settings.edges, settings.steps, settings.turns)
            results["costs"] = [asdict(cost) for cost in costs]
            _print("Cost, by turns", results["costs"])
    print_results_line("timescales", results)


def study(settings: Settings, logs: list[StudyLog]) -> dict[str, Any]:
    """Train what is not trained yet, and compare."""
    runs = [run for log in logs for run in plan_runs(settings, log)]
    failures = train_all(runs, settings.ranks, display_for(0), settings.minutes)
    finished = [run for run in runs if run.is_finished]
    if not finished and not failures:
        leave_without_results(settings.out)
    figures = list(accuracies(finished, settings.batching))
    verdicts = [verdict for log in logs if (verdict := judge(log.preset, figures))]
    _print("AP against random negatives, at the best epoch by validation", [asdict(one) for one in figures])
    _print(f"auto against single λ on the test part (allowed: {-ALLOWED_BELOW:g})", verdicts)
    return {
        "figures": [asdict(one) for one in figures],
        "verdicts": verdicts,
        "failures": {str(run): why for run, why in failures.items()},
        "unfinished": len(runs) - len(finished) - len(failures),
    }


def plan_runs(settings: Settings, log: StudyLog) -> list[TimescaleRun]:
    """Return the runs, seed by seed, so that every choice has figures early."""
    common = (
        *("--training.epochs", str(settings.epochs), "--data.batching", settings.batching),
        *settings.args.split(),
    )
    folder = settings.out / f"{log.preset}-{settings.batching}-{settings.epochs}-epochs"
    return [
        TimescaleRun(
            log,
            WHOLE,
            seed,
            folder / choice.replace(" ", "-") / f"seed-{seed}",
            (*common, *flags),
            choice=choice,
        )
        for seed in settings.seeds
        for choice, flags in choices(settings, log).items()
    ]


def choices(settings: Settings, log: StudyLog) -> dict[str, tuple[str, ...]]:
    """Return flags by the name of the choice."""
    found: dict[str, tuple[str, ...]] = {PRESET: ()} if log.preset in preset_names() else {}
    found[AUTO] = ("--memory.decay", "auto")
    found |= {f"{rate:g}": ("--memory.decay", f"{rate:g}") for rate in settings.grid}
    if settings.ablations:
        train = split_of(EventLog(log.folder), DataConfig()).train
        slow, fast = timescales_of(train)
        rates = (slow, (slow * fast) ** 0.5, fast)
        found[THREE] = ("--memory.decay", ",".join(f"{rate:.3g}" for rate in rates))
        found[CROSS] = (*found[AUTO], "--model.cross-timescales", "True")
    return found


def accuracies(runs: list[TimescaleRun], batching: str) -> Iterator[Accuracy]:
    groups: dict[tuple[str, str], list[TimescaleRun]] = {}
    for run in runs:
        groups.setdefault((run.log.preset, run.choice), []).append(run)
    for (log, choice), group in groups.items():
        figures = [run.figures() for run in group]
        inductive = [test["inductive"]["random"]["ap"] for _, test in figures if "inductive" in test]
        yield Accuracy(
            log=log,
            batching=batching,
            choice=choice,
            seeds=len(group),
            val=statistics.fmean(val["transductive"]["random"]["ap"] for val, _ in figures),
            test=statistics.fmean(test["transductive"]["random"]["ap"] for _, test in figures),
            inductive_test=statistics.fmean(inductive) if inductive else None,
        )


def judge(log: str, figures: list[Accuracy]) -> dict[str, Any] | None:
    """Return how far `auto` is above the grid's best by the test part, and above the preset."""
    test = {one.choice: one.test for one in figures if one.log == log}
    single = {choice: ap for choice, ap in test.items() if choice not in (AUTO, PRESET, THREE, CROSS)}
    if AUTO not in test or not single:
        return None
    best = max(single, key=lambda choice: single[choice])
    return {
        "log": log,
        "best single λ": best,
        "auto above it": test[AUTO] - single[best],
        "is allowed": test[AUTO] >= single[best] - ALLOWED_BELOW,
        "auto above the preset": test[AUTO] - test[PRESET] if PRESET in test else None,
    }


def _log_at(place: str) -> StudyLog:
    name, equals, rest = place.partition("=")
    log = StudyLog(name, Path(rest)) if equals and name in preset_names() else None
    log = log or StudyLog(dataset_of(Path(place)), Path(place))
    read_manifest(log.folder)
    return log


def _print(title: str, lines: list[dict[str, Any]]) -> None:
    if not lines:
        return
    table = Table(title=title, title_justify="left")
    for name in lines[0]:
        table.add_column(name.replace("_", " "))
    for line in lines:
        shown = (f"{value:.4f}" if isinstance(value, float) else str(value) for value in line.values())
        table.add_row(*("" if value == "None" else value for value in shown))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
