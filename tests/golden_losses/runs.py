"""Runs whose losses are kept: what they train on, and how their files are written anew.

    python -m tests.golden_losses.runs          # after a change that is meant to change losses

Written by one rank of one thread; every other launch must give the same.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.rank_pool import world_of_one
from tests.ranks.test_training_parity import train_on
from tests.support.command_line import convert
from tests.support.event_logs import write_log
from tests.support.shared_folder import shared_folder
from tests.support.training_runs import SMALL_MODEL
from tpnet_dist.config.schema import Config, DataConfig, MemoryConfig, TrainingConfig
from tpnet_dist.models.tpnet.config import TPNetConfig

STEPS = 60
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class GoldenRun:
    """Sixty steps without dropout."""

    make_log: Callable[[Path], None]
    memory: MemoryConfig
    model: TPNetConfig
    training: TrainingConfig

    def config(self, folder: Path) -> Config:
        self.make_log(folder)
        return Config(
            data=DataConfig(folder=str(folder)),
            memory=self.memory,
            model=replace(self.model, dropout=0.0),
            training=replace(self.training, max_steps=STEPS, epochs=100),
        )


def uci(folder: Path) -> None:
    convert(shared_folder() / "data/uci/ml_uci.csv", folder, "--format", "dyglib")


def with_features(folder: Path) -> None:
    """Edges and nodes with features; more than one epoch of it in sixty steps."""
    rng = np.random.default_rng(0)
    num_events, num_nodes = 3000, 80
    src, dst = rng.zipf(1.6, (2, num_events)) % num_nodes
    time = np.sort(rng.integers(0, 5 * num_events, num_events))
    edge_features = rng.standard_normal((num_events, 5)).astype(np.float32)
    node_features = rng.standard_normal((num_nodes, 3)).astype(np.float32)
    write_log(
        folder, src, dst, time, num_nodes=num_nodes, edge_features=edge_features, node_features=node_features
    )


RUNS = {
    # in float32 rounding grows a ten-thousandfold in sixty steps of it, with threads and CPUs as with ranks
    "uci": GoldenRun(uci, MemoryConfig(decay=1e-7), TPNetConfig(), TrainingConfig(precision="float64")),
    "with-features": GoldenRun(
        with_features, MemoryConfig(width=16, decay=1e-4), SMALL_MODEL, TrainingConfig(batch_size=50)
    ),
}


def golden(name: str) -> Mapping[str, Any]:
    """`losses` by step, and `val_ap` after the last."""
    kept: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return kept


def write_anew(name: str) -> None:
    with tempfile.TemporaryDirectory() as scratch, world_of_one() as world:
        results = train_on(world, RUNS[name].config(Path(scratch) / "log"), Path(scratch) / "run")
    kept = {"losses": results["losses"], "val_ap": results["val"]["transductive"]["random"]["ap"]}
    (FOLDER / f"{name}.json").write_text(f"{json.dumps(kept, indent=1)}\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for run in RUNS:
        write_anew(run)
