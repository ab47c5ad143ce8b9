"""Emulated GPUs, and the trainings on them that several tests look at."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.rank_pool import world_of_one
from tests.cuda.jobs import Watched, trained
from tests.ranks.test_training_parity import train_on
from tests.support.emulated_cuda.library import compiler
from tests.support.emulated_cuda.ranks import EmulatedRanks
from tests.support.event_logs import write_log
from tests.support.training_runs import small_config, small_log
from tpnet_dist.config.schema import Config

EVENTS = 560


@pytest.fixture(scope="session")
def emulated() -> Iterator[EmulatedRanks]:
    """`emulated.run(function, …, ranks=2)` runs it on two emulated GPUs."""
    if compiler() is None:
        pytest.skip("no C++ compiler here, which the emulated CUDA device needs")
    ranks = EmulatedRanks()
    yield ranks
    ranks.close()


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("cuda") / "log", EVENTS)


@pytest.fixture(scope="session")
def tied_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Features of nodes and events, and groups of equal times, some larger than a batch."""
    folder, rng = tmp_path_factory.mktemp("cuda") / "tied", np.random.default_rng(0)
    src, dst = rng.integers(0, 40, (2, EVENTS))
    edge, node = (rng.standard_normal(shape, dtype=np.float32) for shape in ((EVENTS, 3), (40, 2)))
    time = np.sort(np.concatenate([rng.integers(0, 60, EVENTS - 90), np.full(90, 20)]))
    write_log(folder, src, dst, time, edge_features=edge, node_features=node)
    return folder


NO_DROPOUT: dict[str, Any] = {"dropout": 0.0}
"""Dropout is drawn otherwise on devices."""


@dataclass(frozen=True)
class Comparison:
    """The same training on emulated GPUs and on the host."""

    ranks: list[Watched]
    on_host: dict[str, Any]
    run: Path
    """The run's folder on the devices."""


class Comparer:
    """`compare(config, ranks)` trains with some settings on so many emulated GPUs, and on the host; each only
    once."""

    def __init__(self, emulated: EmulatedRanks, folders: pytest.TempPathFactory) -> None:
        self._emulated, self._folders = emulated, folders
        self.on_host, self.folder_of, self._compared = map(
            cache, (self._train_on_host, self._new_folder, self._compare)
        )

    def __call__(self, config: Config, num_ranks: int) -> Comparison:
        return self._compared(config, num_ranks)

    def _train_on_host(self, config: Config) -> dict[str, Any]:
        with world_of_one() as world:
            return train_on(world, config, self._folders.mktemp("host") / "run")

    def _new_folder(self, config: Config, num_ranks: int) -> Path:
        return self._folders.mktemp("device") / "run"

    def _compare(self, config: Config, num_ranks: int) -> Comparison:
        run = self.folder_of(config, num_ranks)
        ranks = self._emulated.run(trained, config, run, ranks=num_ranks)
        return Comparison(ranks, self.on_host(config), run)


@pytest.fixture(scope="session")
def compare(emulated: EmulatedRanks, tmp_path_factory: pytest.TempPathFactory) -> Comparer:
    return Comparer(emulated, tmp_path_factory)


@pytest.fixture(scope="session")
def three_epochs(small_folder: Path) -> Config:
    """With validation after each."""
    return small_config(small_folder, model=NO_DROPOUT, training={"batch_size": 40, "epochs": 3})
