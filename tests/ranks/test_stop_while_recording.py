"""A request to stop is obeyed while events are only recorded, by all ranks after the same batches."""

import signal
from pathlib import Path

import pytest

from benchmarks.rank_pool import RankPools
from tests.support.training_runs import small_config, small_log
from tpnet_dist.batches.event_batches import replay, until_stop_requested
from tpnet_dist.batches.run_data import RunData
from tpnet_dist.distributed.stop_request import StopRequested
from tpnet_dist.distributed.world import World
from tpnet_dist.events import view
from tpnet_dist.memory.memory import CatchUp
from tpnet_dist.training.run_model import RunModel

BATCH = 2
CHUNK = 20


def stop_then_record(world: World, folder: Path, catch_up: CatchUp) -> tuple[int, bool]:
    """How many events had been recorded when it stopped, and whether all of it works afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view, "EVENTS_PER_CHUNK", CHUNK)
        return _stop_then_record(world, folder, catch_up)


def _stop_then_record(world: World, folder: Path, catch_up: CatchUp) -> tuple[int, bool]:
    data = RunData.open(
        small_config(folder, training={"batch_size": BATCH}, memory={"catch_up": catch_up}), world
    )
    memory = RunModel.build(data.config, data.log, world, seed=0).memory
    assert memory is not None
    look, done = until_stop_requested(world), 0

    def told(num_events: int) -> None:
        nonlocal done
        done += num_events
        if world.rank == world.num_ranks - 1 and done > 3 * CHUNK:
            world.stop.number = signal.SIGTERM
        look(num_events)

    with pytest.raises(StopRequested, match="stopped by SIGTERM"):
        replay(memory, data.log, data.split.train, data.train_plan, progress=told)
    world.stop.number = 0
    memory.reset(0)
    replay(memory, data.log, data.split.train, data.train_plan, progress=until_stop_requested(world))
    return done, bool(memory.table.rows_NLD[:, 1].abs().sum() > 0)


@pytest.mark.parametrize("num_ranks", [1, 2])
@pytest.mark.parametrize("catch_up", ["columns", "nodes"])
def test_ranks_stop_recording_after_the_same_batches(
    rank_pools: RankPools, tmp_path: Path, catch_up: CatchUp, num_ranks: int
) -> None:
    folder = small_log(tmp_path / "log")
    first, *others = rank_pools[num_ranks].run(stop_then_record, folder, catch_up)
    done, works_afterwards = first
    assert 3 * CHUNK < done <= 5 * CHUNK
    assert works_afterwards
    assert others == [first] * (num_ranks - 1)
