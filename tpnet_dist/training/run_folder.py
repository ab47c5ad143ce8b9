"""A run on disk: `config.toml`, `metrics.jsonl`, `tensorboard/`, `checkpoints/`, `results.json`, plots."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpnet_dist.config import Config
from tpnet_dist.config_file import read_config, write_config
from tpnet_dist.config_keys import values_of
from tpnet_dist.errors import InputError
from tpnet_dist.ranks.world import World
from tpnet_dist.run_log import RESULTS_NAME
from tpnet_dist.training.checkpoint import CheckpointFolder
from tpnet_dist.whole_file import whole_file

CONFIG_NAME = "config.toml"


@dataclass(frozen=True)
class RunFolder:
    """One run."""

    path: Path

    @classmethod
    def start(cls, path: Path, config: Config) -> "RunFolder":
        """A new run, or one to go on with, which must have the same settings."""
        run = cls(path)
        if (path / CONFIG_NAME).exists():
            run._require_same(config)
        else:
            if path.exists() and any(path.iterdir()):
                raise InputError(f"{path}: holds files but no run; choose another --run-dir")
            path.mkdir(parents=True, exist_ok=True)
            write_config(config, path / CONFIG_NAME)
        return run

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """A run that was started before."""
        if not (path / CONFIG_NAME).is_file():
            raise InputError(f"{path}: holds no {CONFIG_NAME}, so it is no run; give the folder of a run")
        return cls(path)

    def config(self) -> Config:
        return read_config(self.path / CONFIG_NAME)

    def checkpoints(self, seed: int, *, keep: int, log_id: str, world: World) -> CheckpointFolder:
        folder = self.path / "checkpoints" / f"seed-{seed}"
        return CheckpointFolder(folder, keep=keep, log_id=log_id, world=world)

    def results(self) -> dict[str, Any] | None:
        """None before the run is finished."""
        try:
            results: dict[str, Any] = json.loads((self.path / RESULTS_NAME).read_text())
        except FileNotFoundError:
            return None
        return results

    def write_results(self, results: dict[str, Any]) -> None:
        """Last of all."""
        with whole_file(self.path / RESULTS_NAME) as file:
            file.write(f"{json.dumps(results, indent=2)}\n".encode())

    def _require_same(self, config: Config) -> None:
        before, now = values_of(self.config()), values_of(config)
        for key, value in now.items():
            if before[key] != value:
                raise InputError(
                    f"{self.path}: holds a run with {key} = {before[key]!r} where it is now {value!r}; "
                    "repeat its settings to go on with it, or choose another --run-dir"
                )
