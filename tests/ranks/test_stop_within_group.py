"""A run that is stopped within a group of equal times ends as if it had not been."""

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.rank_pool import RankPools
from tests.ranks.test_training_parity import config_of_groups
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.stop_request import StopRequested
from tpnet_dist.distributed.world import World
from tpnet_dist.evaluation.protocols import Passes
from tpnet_dist.files.progress import Display
from tpnet_dist.files.typed_json import to_json
from tpnet_dist.training.checkpoint import CheckpointFolder, RunFacts
from tpnet_dist.training.run import open_data
from tpnet_dist.training.trainer import SeedTrainer

BATCH = 3


class StoppingDisplay(Display):
    """Asks to stop as soon as losses are shown, so many times."""

    def __init__(self, world: World, stops: int) -> None:
        self.world, self.stops = world, stops

    def advance(self, count: int, note: str = "", *, position: int | None = None) -> None:
        if note.startswith("loss") and self.stops and self.world.rank == self.world.num_ranks - 1:
            self.world.stop.number = signal.SIGTERM


def train_with_stops(
    world: World, config: Config, run: Path, stops: int
) -> tuple[dict[str, Any], list[float], list[int]]:
    """Figures of the run, the sums of its weights, and the steps after which it stopped."""
    data, stopped_at = open_data(config, world), list[int]()
    checkpoints = CheckpointFolder(run, keep=1, run=RunFacts(0, data.log.manifest.log_id, {}), world=world)
    while True:
        display = StoppingDisplay(world, stops - len(stopped_at))
        trainer = SeedTrainer(
            config, data, 0, passes=Passes(config, data), checkpoints=checkpoints, log=None, display=display
        )
        try:
            results = trainer.train()
        except StopRequested:
            world.stop.number = 0
            stopped_at.append(trainer.progress.steps_of_epoch)
            continue
        figures = to_json(results)
        sums = [float(weight.detach().double().sum()) for weight in trainer.parts.model.parameters()]
        return {name: figures[name] for name in ("val", "test")}, sums, stopped_at


@pytest.mark.parametrize("profile", ["paper", "published"])
@pytest.mark.parametrize("num_ranks", [1, 2])
def test_a_run_stopped_within_groups_of_equal_times_ends_with_the_same_figures(
    rank_pools: RankPools, tmp_path: Path, num_ranks: int, profile: str
) -> None:
    config = config_of_groups(tmp_path / "log", batch_size=BATCH, profile=profile)
    # rows fade from one time to the next, so that it shows at which time they are read
    config = replace(config, memory=replace(config.memory, decay=0.5))
    pool = rank_pools[num_ranks]
    [(*whole, never), *_] = pool.run(train_with_stops, config, tmp_path / "whole", 0)
    [(*stopped, steps), *_] = pool.run(train_with_stops, config, tmp_path / "stopped", 3)
    assert never == []
    # losses are looked at after each tenth step, wherever in a group that is
    assert steps == [10, 20, 30]
    assert stopped == whole
