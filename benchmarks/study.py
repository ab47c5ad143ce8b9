"""Runs of a study: planned, trained by torchrun one after another, and gone on with where they were."""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from benchmarks.finished_runs import SeedResult, results_of, results_so_far
from benchmarks.study_logs import StudyLog
from benchmarks.variants import flags_of
from tpnet_dist.config.schema import Config
from tpnet_dist.config.toml_files import CONFIG_NAME, read_config
from tpnet_dist.config.train_args import parse_train
from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.results import RESULTS_NAME
from tpnet_dist.files.progress import Display
from tpnet_dist.training.metrics_file import METRICS_NAME, last_line

SECONDS_BETWEEN_LOOKS = 1.0


@dataclass(frozen=True)
class StudyRun:
    """One seed of one variant on one log."""

    log: StudyLog
    variant: str
    seed: int
    path: Path
    common_args: tuple[str, ...]
    """Arguments that all variants and seeds share."""

    def __str__(self) -> str:
        return f"{self.log.preset}, {self.variant}, seed {self.seed}"

    @property
    def args(self) -> list[str]:
        """Return the arguments of `tpnet_dist.train`."""
        own = [*flags_of(self.variant), "--training.seed", str(self.seed), "--run-dir", str(self.path)]
        return [*self._base_args(), *own]

    @property
    def output(self) -> Path:
        """Return the file for what training prints; it lies beside the run, whose folder is its own."""
        return self.path.with_name(f"{self.path.name}.log")

    @property
    def is_finished(self) -> bool:
        return (self.path / RESULTS_NAME).exists()

    def config(self) -> Config:
        return parse_train(self.args).config

    def results(self, ranks: int = 1) -> list[SeedResult]:
        """Return its results; of a run broken off, which had so many ranks, those so far: none before an
        epoch is over."""
        # settings of another model are others; those that make it a variant are not among them
        model = ["--model.name", self.config().model.name]
        base = parse_train([*self._base_args(), *model]).config
        if self.is_finished:
            return results_of(self.path, dataset=self.log.preset, base=base)
        return results_so_far(self.path, ranks, dataset=self.log.preset, base=base)

    def events(self) -> int:
        """Return the most events that are learnt from, over all epochs."""
        config = self.config()
        share = 1 - config.data.val_share - config.data.test_share
        return self.log.train_events(share) * config.training.epochs

    def progress(self) -> tuple[int, int]:
        """Return the events learnt from so far, and the epoch under way."""
        config, line = self.config().training, last_line(self.path / METRICS_NAME)
        if line is None:
            return 0, 1
        return min(line.step * config.batch_size * config.batches_per_step, self.events()), line.epoch

    def _base_args(self) -> list[str]:
        return [str(self.log.folder), "--preset", self.log.preset, *self.common_args]


def train_all(
    runs: Sequence[StudyRun], ranks: int, display: Display, minutes: float | None = None
) -> dict[StudyRun, str]:
    """Train the runs not finished yet, each from where it was broken off; return why some came to nothing.

    `minutes`: the most that all may take. Each run has an equal share of what is left of them, after which it
    saves its step and leaves the rest to the next time.
    """
    ends = None if minutes is None else time.monotonic() + 60 * minutes
    refuse_others(runs)
    waiting = [run for run in runs if not run.is_finished]
    done = sum(run.progress()[0] for run in waiting)
    failures = {}
    if waiting:
        plural = "s" * (len(runs) > 1)
        display.say(f"{len(runs)} run{plural}, {len(runs) - len(waiting)} of them finished before")
    with display.stage("study", sum(run.events() for run in waiting), done=done):
        for number, run in enumerate(waiting, start=1):
            watch = RunWatch(run, display, f"run {number} of {len(waiting)}: {run}")
            display.say(f"{watch.title}: {run.path}")
            left = len(waiting) - number + 1
            seconds = None if ends is None else (ends - time.monotonic()) / left
            has_ended = train(run, ranks, watch.look, seconds)
            watch.end()
            if not has_ended:
                display.say(f"{run}: its time is over; the same command goes on with it")
            elif not run.is_finished:
                failures[run] = _why(run.output)
                display.say(f"{run}: {failures[run]}")
    return failures


class RunWatch:
    """Tells how far a run is."""

    def __init__(self, run: StudyRun, display: Display, title: str) -> None:
        self.run, self.display, self.title = run, display, title
        self._epochs, self._total, self._done = run.config().training.epochs, run.events(), run.progress()[0]

    def look(self) -> None:
        events, epoch = self.run.progress()
        self._advance_to(events, f"{self.title}, epoch {epoch} of {self._epochs}")

    def end(self) -> None:
        """Show a training as done that stopped early or came to nothing."""
        self._advance_to(self._total, self.title)

    def _advance_to(self, events: int, note: str) -> None:
        # of nothing learnt yet there is no speed, and no time left
        if events != self._done:
            self.display.advance(events - self._done, note)
            self._done = events


def train(run: StudyRun, ranks: int, look: Callable[[], None], seconds: float | None = None) -> bool:
    """Run a training to its end, and call `look` now and then to see how far it is; return False if `seconds`
    were over before."""
    if seconds is not None and seconds <= 0:
        return False
    ends = None if seconds is None else time.monotonic() + seconds
    run.output.parent.mkdir(parents=True, exist_ok=True)
    with run.output.open("wb") as file:
        # in a session of its own: a Ctrl-C is ours, and it hears of it once
        process = subprocess.Popen(launch(run.args, ranks), stdout=file, stderr=file, start_new_session=True)
        try:
            while process.poll() is None:
                if ends is not None and time.monotonic() > ends:
                    return False
                look()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(SECONDS_BETWEEN_LOOKS)
            return True
        finally:
            if process.poll() is None:
                # it saves its step
                process.terminate()
                process.wait()


def leave_without_results(out: Path) -> NoReturn:
    """End a study that had no time."""
    print(
        f"{out}: no run has come so far that it could be shown; repeat the command to go on",
        file=sys.stderr,
    )
    sys.exit(1)


def require_positive(**numbers: float | None) -> None:
    """Refuse flags whose value cannot be; None was not given."""
    for name, number in numbers.items():
        if number is not None and number <= 0:
            raise InputError(f"--{name} is {number}, but must be above 0; raise it")


def refuse_others(runs: Sequence[StudyRun]) -> None:
    """Refuse, before anything is trained, folders that hold runs with other settings."""
    from tpnet_dist.training.run_folder import RunFolder

    for run in runs:
        if (run.path / CONFIG_NAME).exists():
            try:
                RunFolder.start(run.path, _with_own_timescales(run))
            except InputError as error:
                raise InputError(str(error).replace("--run-dir", "--out")) from None


def _with_own_timescales(run: StudyRun) -> Config:
    """Return its settings with the timescales that it took from its log when it began, if it was to do so."""
    config = run.config()
    if config.memory.decay != "auto":
        return config
    return replace(
        config, memory=replace(config.memory, decay=read_config(run.path / CONFIG_NAME).memory.decay)
    )


def launch(args: Sequence[str], ranks: int) -> list[str]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    return [*torchrun, "-m", "tpnet_dist.train", *args]


def _why(output: Path) -> str:
    """Return the sentence training ended with."""
    said = [line for line in output.read_text(errors="replace").splitlines() if ": error: " in line]
    reason = said[-1].partition(": error: ")[2] if said else "came to no results"
    return f"{reason} (see {output})"
