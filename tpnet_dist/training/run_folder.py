"""A run on disk: `config.toml`, `metrics.jsonl`, `tensorboard/`, `checkpoints/`, `results.json`, plots;
`evaluation.json`, if it was evaluated anew."""

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tpnet_dist.config.keys import changes_no_result, values_of
from tpnet_dist.config.schema import Config
from tpnet_dist.config.toml_files import CONFIG_NAME, read_config, write_config
from tpnet_dist.distributed.world import World
from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.results import (
    EVALUATION_NAME,
    RESULTS_NAME,
    Results,
    read_results,
    write_results,
)
from tpnet_dist.files.folder_lock import folder_lock
from tpnet_dist.files.progress import Display
from tpnet_dist.training.checkpoint import CheckpointFolder, RunFacts

LENGTH_KEYS = {"training.epochs", "training.patience", "training.max_steps"}
"""Settings that say how long training lasts; they may change while it does."""
SECONDS_FOR_A_DYING_RUN = 3.0
"""Ranks whose launcher was killed take a moment to notice."""


@dataclass(frozen=True)
class RunFolder:
    """Is the folder of one run."""

    path: Path

    @classmethod
    def start(cls, path: Path, config: Config, *, fresh: bool = False) -> "RunFolder":
        """Start a run, or find one to go on with, which must have the same settings where they matter.

        With `fresh`, a run that is there is refused.
        """
        run = cls(path)
        if (path / CONFIG_NAME).exists():
            if fresh:
                raise InputError(
                    f"{path}: holds a run already; leave --fresh away to go on with it, "
                    "or choose another --run-dir"
                )
            run._go_on_with(config)
        else:
            # a process that was killed may have left the settings half-written
            if path.exists() and any(file.name != f".{CONFIG_NAME}.part" for file in path.iterdir()):
                raise InputError(f"{path}: holds files but no run; choose another --run-dir")
            path.mkdir(parents=True, exist_ok=True)
            write_config(config, path / CONFIG_NAME)
        return run

    @staticmethod
    @contextmanager
    def locked(path: Path, world: World) -> Iterator[None]:
        """Lock the folder, so that two runs never write to it; the first rank holds the lock for all."""
        target = path.resolve()

        def take(locks: ExitStack) -> None:
            target.parent.mkdir(parents=True, exist_ok=True)
            locks.enter_context(folder_lock(target, patience=SECONDS_FOR_A_DYING_RUN))

        with ExitStack() as locks:
            world.on_first_rank(lambda: take(locks))
            yield

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Open a run that was started before."""
        if not (path / CONFIG_NAME).is_file():
            raise InputError(f"{path}: holds no {CONFIG_NAME}, so it is no run; give the folder of a run")
        return cls(path)

    def config(self) -> Config:
        return read_config(self.path / CONFIG_NAME)

    def checkpoints(
        self, run: RunFacts, *, keep: int, world: World, display: Display | None = None
    ) -> CheckpointFolder:
        folder = seed_folder(self.path, run.seed)
        return CheckpointFolder(folder, keep=keep, run=run, world=world, display=display)

    def results(self) -> Results | None:
        """Return the results; None before the run is finished."""
        return read_results(self.path)

    def write_results(self, results: Results) -> None:
        """Write the results, as the last file of a run."""
        write_results(results, self.path)

    def require_savable(self, config: Config) -> None:
        """Refuse other kinds of figures. A report shows figures of an evaluation beside the run's own, so
        they must be of the same kind."""
        if self.results() is None:
            raise InputError(f"{self.path}: is not finished; repeat its command first, or leave --save away")
        for name in ("protocol", "update"):
            own, now = (getattr(each.evaluation, name) for each in (self.config(), config))
            if own != now:
                raise InputError(
                    f"--{name} is {now!r} where the run has {own!r}, and --save keeps what can stand beside "
                    "its figures; leave one of them away"
                )

    def write_evaluation(self, results: Results) -> Path:
        """Write an evaluation for reports; an earlier one is replaced."""
        return write_results(results, self.path, EVALUATION_NAME)

    def _go_on_with(self, config: Config) -> None:
        before, now = _with_folder_resolved(self.config()), _with_folder_resolved(config)
        is_finished = (self.path / RESULTS_NAME).exists()
        # another model has other settings; its name comes before them
        changed = [key for key in now if before.get(key) != now[key] and not changes_no_result(key)]
        if is_finished and changed and LENGTH_KEYS.issuperset(changed) and _is_longer(before, now):
            # first what says that it is finished: if this is killed, the repeated command goes on
            for name in (RESULTS_NAME, EVALUATION_NAME):
                (self.path / name).unlink(missing_ok=True)
            is_finished = False
        for key in changed:
            if is_finished:
                raise InputError(
                    f"{self.path}: holds a run that is finished, with {key} = {before[key]!r} where it is "
                    f"now {now[key]!r}; choose another --run-dir"
                )
            if key not in LENGTH_KEYS:
                raise InputError(
                    f"{self.path}: holds a run with {key} = {before[key]!r} where it is now {now[key]!r}; "
                    "repeat its settings to go on with it, or choose another --run-dir"
                )
        if not is_finished and before != now:
            write_config(config, self.path / CONFIG_NAME)


def seed_folder(run: Path, seed: int) -> Path:
    """Return the folder of a seed's checkpoints."""
    return run / "checkpoints" / f"seed-{seed}"


def _with_folder_resolved(config: Config) -> dict[str, object]:
    """Return every setting, with folders resolved: one folder may have several names."""
    other = config.training.continue_from
    return {
        **values_of(config),
        "data.folder": str(Path(config.data.folder).resolve()),
        "training.continue_from": other and str(Path(other).resolve()),
    }


def _is_longer(before: Mapping[str, object], now: Mapping[str, object]) -> bool:
    """Return whether a run may last longer than it might, and nothing shorter; None is no limit."""
    limits = [
        [math.inf if values[key] is None else float(str(values[key])) for values in (before, now)]
        for key in LENGTH_KEYS
    ]
    return all(least <= most for least, most in limits) and any(least < most for least, most in limits)
