"""How fast and how accurate each model is, on one log in one run: the paper's efficiency figure.

    python -m benchmarks.efficiency                            # the built-in log, one epoch of each model
    python -m benchmarks.efficiency --data data/uci --epochs 5 # goes on where it was
    python -m benchmarks.efficiency --data data/uci --steps 50 # AP after 50 steps: a quick look
    python -m benchmarks.efficiency --data data/uci --runs build/accuracy/uci-5-epochs    # trains nothing

Speed: each model takes turns of a few steps with TPNet, so that both meet the same disturbances; `x TPNet` is
the median over turns. An epoch is the median step times the batches of the training part; scoring, those of
the test part, each event against one other. Shares are of a step in which nothing runs ahead of the model:
looking neighbours up, and relative encodings (TPNet: recording and reading rows, pair features; CAWN:
positions; DyGFormer: co-occurrences), of which training counts the forward pass alone.

Accuracy: a run of each model by `torchrun -m tpnet_dist.train` with the dataset's preset, kept in the folder
of --out, as in `benchmarks.accuracy`; test AP against random negatives at the best epoch. The same command
repeats nothing that it has measured or trained already. With --minutes it stops in time.
"""

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from tyro.conf import FlagCreatePairsOff, arg

from benchmarks import accuracy
from benchmarks.efficiency_figure import draw_efficiency
from benchmarks.efficiency_rank import Speed, measure_speed
from benchmarks.efficiency_rows import Efficiency, efficiency_sheets, rows_of
from benchmarks.finished_runs import SeedResult, in_order, read_runs
from benchmarks.results_line import commit_of_code, print_results_line
from benchmarks.study import StudyRun, require_positive, train_all
from benchmarks.study_logs import StudyLog, builtin, find_logs
from benchmarks.variants import titles
from tpnet_dist.batches.run_data import plan_of, split_of
from tpnet_dist.config.keys import values_of
from tpnet_dist.config.model_configs import DEFAULT_MODEL
from tpnet_dist.config.schema import Config
from tpnet_dist.config.train_args import parse_train
from tpnet_dist.errors import InputError, errors_for_people
from tpnet_dist.events.reader import EventLog
from tpnet_dist.files.atomic_write import atomic_write
from tpnet_dist.files.progress import Display, display_for
from tpnet_dist.files.typed_json import from_json
from tpnet_dist.models.registry import MODELS

PROGRAM = "python -m benchmarks.efficiency"
WIDTH_OF_TERMINAL = 120
SEED = 0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """On which log, for how long."""

    data: Annotated[str, arg(metavar="DIR")] = ""
    """A data folder named like a preset, or PRESET=DIR; by default the built-in log."""
    models: tuple[str, ...] = MODELS
    """Names of the models."""
    epochs: int | None = None
    """The most epochs that each model is trained for; 1 unless --steps or --runs is given."""
    steps: int | None = None
    """The steps that each model is trained for, instead of epochs."""
    runs: Annotated[tuple[Path, ...], arg(metavar="RUN …")] = ()
    """Train nothing: take AP from these runs, or from all finished ones within these folders."""
    minutes: float | None = None
    """The most minutes that it may take; speeds are measured to their end first."""
    turn_steps: int = 3
    """Steps of each turn."""
    turns: int = 3
    """Counted turns; one more comes first."""
    cores: int = os.cpu_count() or 1
    """The threads of each model while speed is measured."""
    ranks: int = 1
    """The number of ranks of each training run."""
    config: Path | None = None
    """A TOML file of further settings for all models."""
    out: Path = Path("build/efficiency")
    """Where runs, speeds, table and figure are kept."""
    again: bool = False
    """Measure speeds anew."""
    debug: bool = False
    """Show the traceback of an error."""

    def check(self) -> None:
        for name in self.models:
            if name not in MODELS:
                raise InputError(f"--models holds {name!r}; choose among {', '.join(MODELS)}")
        if not self.models or len(set(self.models)) < len(self.models):
            raise InputError(f"--models is {self.models}, but must be distinct values; name each once")
        given = [f"--{name}" for name in ("epochs", "steps", "runs") if getattr(self, name)]
        if len(given) > 1:
            raise InputError(
                f"{' and '.join(given)} say different things of what is trained; give one of them"
            )
        require_positive(
            epochs=self.epochs,
            steps=self.steps,
            minutes=self.minutes,
            turn_steps=self.turn_steps,
            turns=self.turns,
            cores=self.cores,
            ranks=self.ranks,
        )

    def args(self) -> list[str]:
        """Return the arguments of all models."""
        return ["--config", str(self.config)] if self.config else []


def main() -> None:
    settings = tyro.cli(Settings, prog=PROGRAM, description=__doc__, config=(FlagCreatePairsOff,))
    with errors_for_people(PROGRAM, debug=settings.debug):
        settings.check()
        log, started, display = _log(settings), time.monotonic(), display_for(0)
        configs = {name: _config(settings, log, name) for name in settings.models}
        tpnet = _config(settings, log, DEFAULT_MODEL)
        batches = _batches(tpnet, settings)
        speeds = {name: _speed(settings, log, config, tpnet, display) for name, config in configs.items()}
        results, failures = _results(settings, log, started, display)
        rows = rows_of(speeds, results, log.preset, *batches)
        report(settings, log, rows, failures)
    if failures:
        raise SystemExit(1)


def report(settings: Settings, log: StudyLog, rows: list[Efficiency], failures: dict[str, str]) -> None:
    """Show what was found on the terminal and in files."""
    sheets, console = efficiency_sheets(rows, log.preset), Console(width=WIDTH_OF_TERMINAL)
    console.print(*(sheet.for_terminal() for sheet in sheets), sep="\n")
    for run, why in failures.items():
        console.print(f"{run}: {why}", highlight=False)
    settings.out.mkdir(parents=True, exist_ok=True)
    table = settings.out / f"efficiency-{log.preset}.md"
    with atomic_write(table) as file:
        file.write("\n".join(sheet.as_markdown() for sheet in sheets).encode())
    figures = draw_efficiency(rows, log.preset, settings.out / f"efficiency-{log.preset}")
    written = ", ".join(map(str, [table, *figures]))
    console.print(f"written: {written}", highlight=False, soft_wrap=True)
    asked = {name: getattr(settings, name) for name in ("epochs", "steps", "turn_steps", "turns", "cores")}
    lines = [asdict(row) for row in rows]
    print_results_line("efficiency", {"log": log.preset, **asked, "models": lines, "failures": failures})


def _log(settings: Settings) -> StudyLog:
    if not settings.data:
        return builtin()
    logs = find_logs((settings.data,))
    if len(logs) > 1:
        raise InputError(f"--data {settings.data}: holds {len(logs)} logs, but one is measured; name one")
    return logs[0]


def _config(settings: Settings, log: StudyLog, model: str) -> Config:
    args = [str(log.folder), "--preset", log.preset, *settings.args(), "--model.name", model]
    return parse_train(args).config


def _batches(config: Config, settings: Settings) -> tuple[int, int]:
    """Count the batches of an epoch and of the test part; refuse turns for which the log is too short."""
    log = EventLog(config.data.folder)
    split, size = split_of(log, config.data), config.training.batch_size
    train, test = len(plan_of(split.train, config, size)), len(plan_of(split.test, config, size))
    wanted = settings.turn_steps * (settings.turns + 2)
    there = min(train // 2, len(plan_of(split.val, config, config.evaluation.batch_size)))
    if wanted > there:
        raise InputError(
            f"{config.data.folder} has {there} batches where {wanted} are asked for; "
            "lower --turn-steps or --turns"
        )
    return train, test


def _speed(settings: Settings, log: StudyLog, config: Config, tpnet: Config, display: Display) -> Speed:
    """Measure the model, or read what was kept from before if it was asked for alike."""
    path = settings.out / f"{log.preset}-speed" / f"{config.model.name}.json"
    asked: dict[str, Any] = {name: getattr(settings, name) for name in ("turn_steps", "turns", "cores")}
    asked |= {"log": EventLog(log.folder).manifest.log_id, "settings": values_of(config)}
    asked = json.loads(json.dumps(asked))
    kept = json.loads(path.read_text()) if path.exists() and not settings.again else {}
    if kept.get("asked") == asked:
        display.say(f"{path}: measured before, at {kept['commit']}; --again measures it anew")
        return from_json(Speed, kept["speed"])
    by_turns = ", by turns with TPNet" if config.model.name != DEFAULT_MODEL else ""
    display.say(f"measuring {config.model.title}{by_turns}")
    speed = measure_speed(
        config, tpnet, cores=settings.cores, turn_steps=settings.turn_steps, turns=settings.turns
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        content = {"asked": asked, "commit": commit_of_code(), "speed": asdict(speed)}
        file.write(f"{json.dumps(content, indent=1)}\n".encode())
    return speed


def _results(
    settings: Settings, log: StudyLog, started: float, display: Display
) -> tuple[dict[str, SeedResult], dict[str, str]]:
    """Return results by model; and why some have none."""
    if settings.runs:
        return _by_model(read_runs(settings.runs), log), {}
    runs = plan_runs(settings, log)
    minutes = settings.minutes and max(0.0, settings.minutes - (time.monotonic() - started) / 60)
    failures = train_all(runs, settings.ranks, display, minutes)
    done = [result for run in runs if run not in failures for result in run.results(settings.ranks)]
    return _by_model(in_order(done), log), {str(run): why for run, why in failures.items()}


def _by_model(results: list[SeedResult], log: StudyLog) -> dict[str, SeedResult]:
    """Return results of models as they are, the first seed of each."""
    found: dict[str, SeedResult] = {}
    for one in results:
        if one.dataset == log.preset and one.variant == titles()[one.model]:
            found.setdefault(one.model, one)
    return found


def plan_runs(settings: Settings, log: StudyLog) -> list[StudyRun]:
    """Return the runs of the accuracy study for so many epochs; for so many steps others, against random
    negatives alone."""
    if settings.steps is None:
        asked = accuracy.Settings(
            data=(settings.data,) if settings.data else (),
            models=settings.models,
            seeds=(SEED,),
            epochs=settings.epochs or 1,
            config=settings.config,
            curves=True,
            out=settings.out,
        )
        return accuracy.plan_runs(asked, log)
    args = (*settings.args(), "--training.max-steps", str(settings.steps), "--evaluation.negatives", "random")
    args += ("--evaluation.baseline", "none")
    folder = settings.out / f"{log.preset}-{settings.steps}-steps"
    return [
        StudyRun(log, title, SEED, folder / title / f"seed-{SEED}", args)
        for title in (titles()[name] for name in settings.models)
    ]


if __name__ == "__main__":
    main()
