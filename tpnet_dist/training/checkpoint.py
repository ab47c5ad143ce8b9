"""A seed's state on disk: weights, optimizer and progress; newest ones kept, and the best weights.

Rows of the memory are not among it: they are a function of the events before, so a run that goes on records
these again, at several hundred thousand a second, and stands where it stood, bit for bit.
"""

import math
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tpnet_dist.distributed.world import World
from tpnet_dist.errors import InputError
from tpnet_dist.files.progress import Display
from tpnet_dist.training.engine import Engine, OptimizerState
from tpnet_dist.training.progress import Progress
from tpnet_dist.training.step_folder import (
    ASIDE_PREFIX,
    FORMAT,
    MANIFEST_NAME,
    DamagedCheckpoint,
    read_facts,
    read_tensors,
    write_step,
)
from tpnet_dist.training.weights_file import load_weights, read_state, write_state

BEST_NAME = "best.pt"


@dataclass(frozen=True)
class RunFacts:
    """Holds what a checkpoint says of the run it belongs to."""

    seed: int
    log_id: str
    config: Mapping[str, Any]
    """Every setting of the run."""


@dataclass(frozen=True)
class _Step:
    """Holds a checkpoint that was read."""

    path: Path
    progress: Progress
    tensors: dict[str, Tensor]


class CheckpointFolder:
    """`step-N/` within an epoch and `step-N-epoch-E/` after its validation, of which the newest stay, and
    `best.pt`. The first rank reads and writes for all."""

    def __init__(
        self, folder: Path, *, keep: int, run: RunFacts, world: World, display: Display | None = None
    ) -> None:
        self.folder, self.keep, self.run, self.world = folder, keep, run, world
        self.display = display or Display()

    def save(self, engine: Engine, progress: Progress) -> None:
        tensors = {f"model/{name}": weight for name, weight in engine.weights().items()}
        tensors |= _flat(engine.optimizer_state())
        epoch = "" if progress.steps_of_epoch else f"-epoch-{progress.epoch}"
        path = self.folder / f"step-{progress.step:08d}{epoch}"
        write_step(path, tensors, {"progress": asdict(progress), **asdict(self.run)}, self.world)
        if self.world.rank == 0:
            steps = self._steps()
            place = steps.index(path) + 1
            # what comes after the newest could not be read when this run began
            for old in [*steps[: max(0, place - self.keep)], *steps[place:]]:
                shutil.rmtree(old)

    def save_best(self, model: nn.Module, progress: Progress) -> None:
        """Write all that a predictor needs into one file."""
        self.world.on_first_rank(lambda: self._write_best(model, progress))

    def _write_best(self, model: nn.Module, progress: Progress) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        what = {"epoch": progress.epoch, "val_ap": float(progress.best_ap), **asdict(self.run)}
        write_state(self.folder / BEST_NAME, {"format": FORMAT, "model": model.state_dict(), **what})

    def load_newest(
        self, model: nn.Module, engine: Engine, *, steps_per_epoch: float = math.inf
    ) -> Progress | None:
        """Load the newest whole checkpoint; return None if there is none to go on from."""
        step = self.world.on_first_rank(lambda: self._newest(steps_per_epoch))
        if step is None:
            return None
        weights, optimizer = _sorted_out(step.tensors)
        load_weights(model, weights, step.path)
        engine.weights_changed(weights)
        engine.load_optimizer_state(optimizer)
        return step.progress

    def load_best(self, model: nn.Module) -> int:
        """Load the best weights; return the epoch they are from."""
        state = self.world.on_first_rank(self._read_best)
        load_weights(model, state["model"], self.folder / BEST_NAME)
        return int(state["epoch"])

    def _newest(self, steps_per_epoch: float) -> _Step | None:
        """Return the newest checkpoint that is whole, and say of each newer one why it is left out."""
        self._remove_leftovers()
        steps = self._steps()
        for path in reversed(steps):
            try:
                facts = read_facts(path)
                progress = self._with_best(progress_of(facts))
                if progress.steps_of_epoch > steps_per_epoch:
                    raise DamagedCheckpoint(
                        f"it has done {progress.steps_of_epoch:,} steps of an epoch of {steps_per_epoch:,}"
                    )
                self._require_same_log(path, facts.get("log_id", "(none)"))
                return _Step(path, progress, read_tensors(path))
            except DamagedCheckpoint as error:
                self.display.say(f"warning: {path}: this checkpoint is left out: {error}")
        if steps:
            self.display.say(f"warning: {self.folder}: no checkpoint is whole; starting from the beginning")
        return None

    def _remove_leftovers(self) -> None:
        for path in sorted(self.folder.glob(f"{ASIDE_PREFIX}*")):
            self.display.say(f"warning: {path}: this checkpoint was not finished when the run ended; removed")
            shutil.rmtree(path)
        for old in sorted(self.folder.glob("step-*.pt")):
            raise InputError(
                f"{old}: an earlier version wrote it, and this one cannot go on from it; "
                "choose another --run-dir"
            )

    def _with_best(self, progress: Progress) -> Progress:
        """Return progress with its best weights. A run that goes on ends with the best weights, so they must
        be there.

        They may be of a later epoch than this checkpoint knows of: those it knew were replaced, then the run
        was killed or a later checkpoint damaged. Epochs that are repeated have to surpass what is there.
        """
        if progress.best_epoch < 0:
            return progress
        try:
            best = read_state(self.folder / BEST_NAME)
        except InputError as error:
            raise DamagedCheckpoint(f"{BEST_NAME} is missing or damaged") from error
        if "val_ap" not in best:  # an earlier version wrote it
            return progress
        return checked(replace(progress, best_epoch=best.get("epoch", -1), best_ap=best["val_ap"]), BEST_NAME)

    def _read_best(self) -> dict[str, Any]:
        state = read_best(self.folder / BEST_NAME)
        self._require_same_log(self.folder / BEST_NAME, state["log_id"])
        return state

    def _require_same_log(self, path: Path, log_id: str) -> None:
        if log_id != self.run.log_id:
            raise InputError(
                f"{path}: made with event log {log_id}, the data folder is {self.run.log_id}; "
                "give the data it was made with, or the folder of another run"
            )

    def _steps(self) -> list[Path]:
        """Return the folders of checkpoints in the order they were written."""
        return sorted(path for path in self.folder.glob("step-*") if path.is_dir())


def read_best(path: Path) -> dict[str, Any]:
    """Read the best weights of a run."""
    state = read_state(path)
    if missing := {"format", "model", "epoch", "log_id"} - state.keys():
        raise InputError(
            f"{path}: lacks {', '.join(sorted(missing))}, so no run wrote it; put the run's own file back, "
            "or train anew"
        )
    return state


def newest_step_facts(folder: Path) -> dict[str, Any] | None:
    """Return what the newest checkpoint that is whole says of its run; None if there is none."""
    found = _newest_whole(folder)
    return None if found is None else found[1]


def newest_optimizer(folder: Path) -> OptimizerState:
    """Return the optimizer's state in the newest checkpoint that is whole; empty if there is none."""
    found = _newest_whole(folder)
    return {} if found is None else _sorted_out(read_tensors(found[0]))[1]


def _newest_whole(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    for path in sorted((each for each in folder.glob("step-*") if each.is_dir()), reverse=True):
        with suppress(DamagedCheckpoint):
            return path, read_facts(path)
    return None


def progress_of(facts: Mapping[str, Any]) -> Progress:
    """Return how far the run of a checkpoint had come; raise DamagedCheckpoint if it does not say."""
    try:
        progress = Progress(**facts["progress"])
    except (KeyError, TypeError) as error:
        raise DamagedCheckpoint(f"{MANIFEST_NAME} does not say how far the run had come") from error
    if checked(progress, MANIFEST_NAME).best_epoch > progress.epoch:
        raise DamagedCheckpoint(f"{MANIFEST_NAME} says that best_epoch is {progress.best_epoch!r}")
    if progress.step < progress.epoch + progress.steps_of_epoch:
        raise DamagedCheckpoint(
            f"{MANIFEST_NAME} says that step is {progress.step!r} in epoch {progress.epoch!r}"
        )
    return progress


def checked(progress: Progress, file: str) -> Progress:
    """Return it; raise DamagedCheckpoint that names the first value which no run writes."""
    for name, wanted in asdict(Progress()).items():
        value, least = getattr(progress, name), -1 if name.startswith("best_") else 0
        is_number = type(value) in (type(wanted), int)
        if not is_number or not math.isfinite(value) or (name != "loss_sum" and value < least):
            raise DamagedCheckpoint(f"{file} says that {name} is {value!r}")
    return progress


def _flat(state: OptimizerState) -> dict[str, Tensor]:
    return {
        f"optimizer/{name}/{key}": torch.as_tensor(value)
        for name, values in state.items()
        for key, value in values.items()
    }


def _sorted_out(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], OptimizerState]:
    weights: dict[str, Tensor] = {}
    optimizer: OptimizerState = {}
    for name, tensor in tensors.items():
        section, _, rest = name.partition("/")
        if section == "model":
            weights[rest] = tensor
        else:
            weight, _, key = rest.rpartition("/")
            optimizer.setdefault(weight, {})[key] = tensor
    return weights, optimizer
