"""Where metrics go beside `metrics.jsonl` and TensorBoard, if asked: a CSV, Weights & Biases, MLflow.

    csv      RUN/metrics.csv, a row for each number: seed, epoch, step, kind, name, value
    wandb    its own account and settings (WANDB_MODE=offline keeps all in RUN/wandb)
    mlflow   MLFLOW_TRACKING_URI, or else RUN/mlflow

A run that goes on goes on there too. What a service refuses never ends a training.
"""

import csv
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from tpnet_dist.errors import InputError
from tpnet_dist.training.metrics_file import METRICS_NAME, read_lines

LoggerName = Literal["csv", "wandb", "mlflow"]
PROJECT = "tpnet_dist"
CSV_NAME = "metrics.csv"
_COLUMNS = ("seed", "epoch", "step", "kind", "name", "value")
_ABOUT_LINES = {"seed", "epoch", "step", "kind", "seconds"}

Numbers = Mapping[str, float]
"""Values by name, joined by slashes."""


class Logger:
    """Takes the numbers of one seed."""

    def write(self, kind: str, epoch: int, step: int, numbers: Numbers) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def require_installed(names: Sequence[str]) -> None:
    """Refuse loggers whose package is not there."""
    for name in names:
        if name != "csv" and find_spec(name) is None:
            raise InputError(
                f"--log {name}: the package {name} is not installed; pip install 'tpnet-dist[{name}]'"
            )


def open_logger(
    name: str, run: Path, seed: int, settings: Mapping[str, object], say: Callable[[str], None]
) -> Logger:
    """Begin with a seed, or go on with it; `metrics.jsonl` holds what was done of it."""
    made: dict[str, Callable[[], Logger]] = {
        "csv": lambda: CsvLogger(run, seed),
        "wandb": lambda: WandbLogger(run, seed, settings),
        "mlflow": lambda: MlflowLogger(run, seed, settings),
    }
    return made[name]() if name == "csv" else _Forgiving(name, made[name], say)


class CsvLogger(Logger):
    """Writes a table that any spreadsheet reads; it is made anew from `metrics.jsonl` when a run goes on."""

    def __init__(self, run: Path, seed: int) -> None:
        self._seed = seed
        self._file = (run / CSV_NAME).open("w", newline="", encoding="utf-8", buffering=1)
        self._rows = csv.writer(self._file)
        self._rows.writerow(_COLUMNS)
        for _, line in read_lines(run / METRICS_NAME):
            if line is not None:
                said = numbers_of(vars(line))
                self._write(line.seed, line.kind, line.epoch, line.step, said)

    def write(self, kind: str, epoch: int, step: int, numbers: Numbers) -> None:
        self._write(self._seed, kind, epoch, step, numbers)

    def _write(self, seed: int, kind: str, epoch: int, step: int, numbers: Numbers) -> None:
        self._rows.writerows((seed, epoch, step, kind, name, value) for name, value in numbers.items())

    def close(self) -> None:
        self._file.close()


class WandbLogger(Logger):
    """Writes to Weights & Biases, a run for each seed."""

    def __init__(self, run: Path, seed: int, settings: Mapping[str, object]) -> None:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=f"{run.resolve().name}, seed {seed}",
            id=_id_of(run, seed),
            resume="allow",
            dir=str(run),
            config=dict(settings),
        )

    def write(self, kind: str, epoch: int, step: int, numbers: Numbers) -> None:
        self._run.log(
            {"epoch": epoch, **{f"{kind}/{name}": value for name, value in numbers.items()}}, step=step
        )

    def close(self) -> None:
        self._run.finish()


class MlflowLogger(Logger):
    """Writes to MLflow, a run for each seed."""

    def __init__(self, run: Path, seed: int, settings: Mapping[str, object]) -> None:
        if "MLFLOW_TRACKING_URI" not in os.environ:
            # its stores of files are to be allowed
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        from mlflow import MlflowClient

        where = os.environ.get("MLFLOW_TRACKING_URI", (run / "mlflow").resolve().as_uri())
        self._client = MlflowClient(tracking_uri=where)
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        found = self._client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else self._client.create_experiment(name)
        known = f"tags.tpnet_dist = '{_id_of(run, seed)}'"
        before = self._client.search_runs([experiment], filter_string=known, max_results=1)
        if before:
            self._id = before[0].info.run_id
            self._client.update_run(self._id, status="RUNNING")
            return
        title = f"{run.resolve().name}, seed {seed}"
        made = self._client.create_run(experiment, run_name=title, tags={"tpnet_dist": _id_of(run, seed)})
        self._id = made.info.run_id
        for key, value in settings.items():
            self._client.log_param(self._id, key, value)

    def write(self, kind: str, epoch: int, step: int, numbers: Numbers) -> None:
        for name, value in numbers.items():
            # its names take no such character
            self._client.log_metric(self._id, f"{kind}/{name}".replace("@", "_at_"), value, step=step)

    def close(self) -> None:
        self._client.set_terminated(self._id)


class _Forgiving(Logger):
    """Says once what went wrong with a service, and lets training go on without it."""

    def __init__(self, name: str, make: Callable[[], Logger], say: Callable[[str], None]) -> None:
        self._name, self._say = name, say
        self._logger: Logger | None = None
        self._attempt(lambda: setattr(self, "_logger", make()))

    def write(self, kind: str, epoch: int, step: int, numbers: Numbers) -> None:
        logger = self._logger
        if logger is not None:
            self._attempt(lambda: logger.write(kind, epoch, step, numbers))

    def close(self) -> None:
        if self._logger is not None:
            self._attempt(self._logger.close)

    def _attempt(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:
            self._logger = None
            reason = " ".join(str(error).split())[:200]
            self._say(
                f"warning: --log {self._name} is left out from here on: {type(error).__name__}: {reason}"
            )


def numbers_of(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Return the numbers among nested values, by names joined by slashes."""
    found: dict[str, float] = {}
    for name, value in values.items():
        if not prefix and name in _ABOUT_LINES:
            continue
        if isinstance(value, Mapping):
            found |= numbers_of(value, f"{prefix}{name}/")
        elif isinstance(value, float):
            found[f"{prefix}{name}"] = value
    return found


def _id_of(run: Path, seed: int) -> str:
    """Return a name that is the same whenever the run goes on, and no other run's."""
    return hashlib.sha256(f"{run.resolve()} {seed}".encode()).hexdigest()[:16]
