"""A seed's state on disk: weights, optimizer and progress; newest ones kept, and the best weights.

Rows of the memory are not among it: they are a function of the events before, so a run that goes on records
these again, at several hundred thousand a second, and stands where it stood, bit for bit.
"""

import pickle
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from tpnet_dist.config import TrainingConfig
from tpnet_dist.errors import InputError
from tpnet_dist.model import TPNet
from tpnet_dist.model.published_names import load_published
from tpnet_dist.ranks.world import World
from tpnet_dist.training.engine import Engine
from tpnet_dist.whole_file import whole_file

BEST_NAME = "best.pt"


@dataclass
class Progress:
    """Where a seed's training stands, between two steps."""

    epoch: int = 0
    """The epoch under way, from 0."""
    steps_of_epoch: int = 0
    """Steps done in it."""
    loss_sum: float = 0.0
    """Of these steps."""
    step: int = 0
    """Steps done in all."""
    best_epoch: int = -1
    best_ap: float = -1.0
    """On validation."""
    seconds: float = 0.0
    """Spent in training steps, waiting for their losses included."""
    events: int = 0
    """Learned from in that time."""
    is_done: bool = False

    def count_step(self, num_events: int) -> None:
        self.step, self.steps_of_epoch = self.step + 1, self.steps_of_epoch + 1
        self.events += num_events

    def end_epoch(self, config: TrainingConfig) -> None:
        """Go on to the next, unless there is none or no hope."""
        is_last = self.epoch + 1 == config.epochs
        has_stalled = self.epoch - self.best_epoch >= config.patience
        is_stopped = config.max_steps is not None and self.step >= config.max_steps
        self.is_done = is_last or has_stalled or is_stopped
        self.epoch, self.steps_of_epoch, self.loss_sum = self.epoch + 1, 0, 0.0


class CheckpointFolder:
    """`step-N.pt`, of which the newest stay, and `best.pt`. The first rank reads and writes for all."""

    def __init__(self, folder: Path, *, keep: int, log_id: str, world: World) -> None:
        self.folder, self.keep, self.log_id, self.world = folder, keep, log_id, world

    def save(self, model: TPNet, engine: Engine, progress: Progress) -> None:
        optimizer = engine.optimizer_state()
        if self.world.rank:
            return
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer,
            "progress": asdict(progress),
            "log_id": self.log_id,
        }
        _write(self.folder / f"step-{progress.step:08d}.pt", state)
        for old in self._steps()[: -self.keep]:
            old.unlink()

    def save_best(self, model: TPNet, progress: Progress) -> None:
        if self.world.rank:
            return
        _write(
            self.folder / BEST_NAME,
            {"model": model.state_dict(), "epoch": progress.epoch, "log_id": self.log_id},
        )

    def load_newest(self, model: TPNet, engine: Engine) -> Progress | None:
        """None if there is nothing to go on from."""
        steps = self.world.on_first_rank(self._steps)
        if not steps:
            return None
        state = self.world.on_first_rank(lambda: self._read(steps[-1]))
        load_weights(model, state["model"], steps[-1])
        engine.load_optimizer_state(state["optimizer"])
        return Progress(**state["progress"])

    def load_best(self, model: TPNet) -> int:
        """Returns the epoch they are from."""
        state = self.world.on_first_rank(lambda: self._read(self.folder / BEST_NAME))
        load_weights(model, state["model"], self.folder / BEST_NAME)
        return int(state["epoch"])

    def _read(self, path: Path) -> dict[str, Any]:
        state = read_state(path)
        if state["log_id"] != self.log_id:
            raise InputError(
                f"{path}: made with event log {state['log_id']}, the data folder is {self.log_id}; "
                "use the same data, or another --run-dir"
            )
        return state

    def _steps(self) -> list[Path]:
        return sorted(self.folder.glob("step-*.pt"))


def load_weights(model: TPNet, weights: dict[str, torch.Tensor], path: Path) -> None:
    """Refuse weights of another shape, naming the first."""
    ours = model.state_dict()
    for name in sorted({*ours, *weights}):
        mine, theirs = (tuple(state[name].shape) if name in state else "absent" for state in (ours, weights))
        if mine != theirs:
            raise InputError(
                f"{path}: {name} is {theirs} where this data and configuration ask for {mine}; "
                "use the data folder, features and settings the checkpoint was made with"
            )
    model.load_state_dict(weights)


def start_from_file(model: TPNet, file: str, world: World) -> None:
    """Take the weights of `model.weights`, if it names a file; the first rank reads it for all."""
    if file:
        start_from(model, world.on_first_rank(lambda: read_state(Path(file))), Path(file))


def start_from(model: TPNet, state: dict[str, Any], path: Path) -> None:
    """Take the weights of a checkpoint of ours, or of one of the released code by its own names."""
    weights = state.get("model", state)
    if not isinstance(weights, dict) or not all(
        isinstance(name, str) and isinstance(weight, torch.Tensor) for name, weight in weights.items()
    ):
        raise InputError(f"{path}: holds no weights by their names; give a checkpoint of TPNet")
    if "model" in state:
        load_weights(model, weights, path)
        return
    try:
        load_published(model, weights)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error


def read_state(path: Path) -> dict[str, Any]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no such checkpoint; train first") from error
    except (RuntimeError, EOFError, pickle.UnpicklingError, KeyError) as error:
        raise InputError(f"{path}: not a readable checkpoint; delete it or train anew") from error
    if not isinstance(state, dict):
        raise InputError(f"{path}: holds a {type(state).__name__}, no state of a model; give a checkpoint")
    return state


def _write(path: Path, state: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        torch.save(state, file)
