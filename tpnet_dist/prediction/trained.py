"""What was trained, wherever it lies: the folder of a run, a checkpoint of ours, one of the released code."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from tpnet_dist.config.schema import Config, default_width
from tpnet_dist.config.toml_files import CONFIG_NAME
from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.calibration import Calibration
from tpnet_dist.events.reader import EventLog
from tpnet_dist.models.registry import spec_of
from tpnet_dist.prediction.checkpoint_rules import calibration_of, config_of, number_of, saved_of
from tpnet_dist.training.checkpoint import BEST_NAME, progress_of, read_best
from tpnet_dist.training.run_folder import RunFolder
from tpnet_dist.training.step_folder import MANIFEST_NAME, DamagedCheckpoint, read_facts, read_tensors
from tpnet_dist.training.weights_file import read_state


@dataclass(frozen=True)
class Trained:
    """Weights, and all that says what they are weights of."""

    path: Path
    config: Config
    seed: int
    epoch: int
    """The epoch of the weights, counted from 0: rows start from the random features of this epoch."""
    log_id: str | None
    """None: nobody wrote it down."""
    state: Mapping[str, Any]
    """The weights, as `start_from` takes them."""
    projection: Tensor | None = None
    """Random features by raw id, row 0 being the padding node's; None: they are drawn."""
    saved: Mapping[str, Any] | None = None
    """What a predictor that was saved had seen."""
    calibration: Calibration | None = None
    """How logits become probabilities; None where the run is not finished, or nothing says so."""

    def with_data(self, folder: str) -> "Trained":
        """The same, with the data there."""
        data = replace(self.config.data, folder=folder)
        return replace(self, config=replace(self.config, data=data))

    def open_log(self, name: Path, *, as_it_was: bool = False) -> EventLog:
        """`name`: what the user calls all this. A relative folder is one of where training was started.
        `as_it_was`: without events that were appended since."""
        folder = Path(self.config.data.folder)
        if not folder.exists():
            raise InputError(
                f"{name}: its data folder {folder.absolute()} does not exist; say where it is, with --data "
                "or in Python data="
            )
        log = EventLog(folder)
        self._require_log(log)
        return EventLog(folder, log_id=self.log_id) if as_it_was else log

    def with_width_of(self, log: EventLog) -> "Trained":
        """The same, with rows as wide as they were when the log was shorter."""
        if self.log_id is None or self.config.memory.width is not None:
            return self
        then = log.manifest.at(self.log_id)
        assert then is not None, "open_log has seen to it"
        memory = replace(self.config.memory, width=default_width(then.events, then.nodes))
        return replace(self, config=replace(self.config, memory=memory))

    def _require_log(self, log: EventLog) -> None:
        if self.log_id is not None and log.manifest.at(self.log_id) is None:
            raise InputError(
                f"{self.path}: made with event log {self.log_id}, the data folder {log.folder} is "
                f"{log.manifest.log_id}; give the data it was made with"
            )


def open_trained(path: Path, *, seed: int | None = None, config: Config | None = None) -> Trained:
    """`seed`: which one of a run's, by default the first. `config`: for a checkpoint without settings."""
    if (path / CONFIG_NAME).is_file():
        _require_nothing_said(path, config)
        return _of_run(RunFolder.open(path), seed)
    if seed is not None:
        raise InputError(f"{path}: is no run of several seeds; leave the seed {seed} away")
    if path.is_dir():
        if (path / MANIFEST_NAME).is_file():
            _require_nothing_said(path, config)
            return _of_step(path)
        raise InputError(f"{path}: is neither a run nor a checkpoint; give the folder of a run")
    state = read_state(path)
    if "model" in state:
        _require_nothing_said(path, config)
        return _of_file(path, state)
    return _of_published(path, state, config or Config())


def _require_nothing_said(path: Path, config: Config | None) -> None:
    if config is not None:
        raise InputError(
            f"{path}: has settings of its own; other ones are for checkpoints of the released code alone, "
            "leave them away"
        )


def _of_run(run: RunFolder, seed: int | None) -> Trained:
    config = run.config()
    seeds = config.training.all_seeds()
    seed = seeds[0] if seed is None else seed
    if seed not in seeds:
        raise InputError(f"{run.path}: has no seed {seed}; choose one of {', '.join(map(str, seeds))}")
    path = run.path / "checkpoints" / f"seed-{seed}" / BEST_NAME
    if not path.exists():
        raise InputError(
            f"{run.path}: has no finished epoch of seed {seed}, whose weights would be in {BEST_NAME}; "
            "repeat the command that trains it, which goes on from where it was"
        )
    results = run.results()
    calibration = results.seeds[seed].calibration if results and seed in results.seeds else None
    return replace(_of_file(path, read_best(path)), config=config, calibration=calibration)


def _of_file(path: Path, state: Mapping[str, Any]) -> Trained:
    saved = saved_of(path, state.get("predictor"))
    return Trained(
        path,
        *_facts(path, state),
        state={"model": state["model"]},
        projection=None if saved is None else saved["projection"],
        saved=saved,
        calibration=calibration_of(path, state.get("calibration")),
    )


def _of_step(path: Path) -> Trained:
    try:
        facts = read_facts(path)
        progress, tensors = progress_of(facts), read_tensors(path)
    except DamagedCheckpoint as error:
        raise InputError(f"{path}: cannot be used: {error}; choose another checkpoint") from error
    # after an epoch's end the next one is up, but the weights are still of the one before
    epoch = max(0, progress.epoch - (progress.steps_of_epoch == 0))
    weights = {
        name.removeprefix("model/"): tensor for name, tensor in tensors.items() if name.startswith("model/")
    }
    return Trained(path, *_facts(path, {**facts, "epoch": epoch}), state={"model": weights})


def _facts(path: Path, state: Mapping[str, Any]) -> tuple[Config, int, int, str]:
    try:
        said, seed, epoch, log_id = (state[name] for name in ("config", "seed", "epoch", "log_id"))
    except KeyError as error:
        raise InputError(f"{path}: says nothing of its {error}; give a checkpoint of a run") from error
    return config_of(path, said), number_of(path, "seed", seed), number_of(path, "epoch", epoch), str(log_id)


def _of_published(path: Path, state: Mapping[str, Any], config: Config) -> Trained:
    """Sizes are read off the weights; λ, walk and data must be said."""
    weights, spec = _tensors(path, state), spec_of(config)
    if spec.state_names is None:
        raise InputError(f"{path}: no published checkpoint of {spec.title} can be read; give one of a run")
    try:
        features = spec.state_names.random_features(state)
        config = spec.state_names.config_of(weights, config)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error
    return Trained(path, config, 0, 0, log_id=None, state=state, projection=features)


def _tensors(path: Path, state: Mapping[str, Any]) -> Mapping[str, Tensor]:
    if not all(isinstance(name, str) and isinstance(value, Tensor) for name, value in state.items()):
        raise InputError(f"{path}: holds no weights by their names; give a checkpoint of a model")
    return state
