"""The parts of a seed: those of the seed before have gone when they are made."""

import gc
import weakref
from pathlib import Path

from benchmarks.rank_pool import world_of_one
from tests.support.training_runs import small_config, small_log
from tpnet_dist.training.run import open_data
from tpnet_dist.training.run_model import RunModel


def test_the_memory_of_the_seed_before_is_freed_though_a_cycle_holds_it(tmp_path: Path) -> None:
    with world_of_one() as world:
        config = small_config(small_log(tmp_path / "log", events=300))
        data = open_data(config, world)
        parts = RunModel.build(config, data.log, world, seed=0)
        assert parts.memory is not None
        before = weakref.ref(parts.memory)
        cycle: list[object] = [parts]
        cycle.append(cycle)
        del parts, cycle
        gc.disable()
        try:
            RunModel.build(config, data.log, world, seed=1)
        finally:
            gc.enable()
        assert before() is None
