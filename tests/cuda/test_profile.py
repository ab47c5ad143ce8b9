"""`--profile` on a GPU times exchange and recording by events there, beside the host's phases."""

import json
from pathlib import Path
from typing import Any

from tests.cuda.conftest import NO_DROPOUT
from tests.cuda.jobs import TIMEOUT
from tests.support.emulated_cuda.operation_log import LOG
from tests.support.emulated_cuda.ranks import EmulatedRanks
from tests.support.training_runs import small_config
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.world import join_world
from tpnet_dist.training.run import train
from tpnet_dist.training.step_profile import DEVICE_PHASES, ON_DEVICE, PHASES_NAME, PROFILE_NAME


def profiled(config: Config, run: Path) -> dict[str, Any]:
    with join_world(TIMEOUT) as world:
        results = train(config, run, world, profile_steps=3)
    return {"reserved": results.conditions.peak_reserved_bytes_by_rank, "launchers": LOG.launchers}


def test_phases_on_the_gpu_stand_beside_those_of_the_host(
    emulated: EmulatedRanks, small_folder: Path, tmp_path: Path
) -> None:
    config = small_config(small_folder, model=NO_DROPOUT, training={"batch_size": 40, "epochs": 1})
    ranks = emulated.run(profiled, config, tmp_path / "run", ranks=2)
    by_rank = json.loads((tmp_path / "run" / PROFILE_NAME / PHASES_NAME).read_text())
    assert len(by_rank) == 2
    for phases in by_rank:
        assert phases["step"] > 0
        assert {ON_DEVICE.format(name) for name in DEVICE_PHASES} <= set(phases)
    assert all(len(rank["reserved"]) == 2 for rank in ranks)
    # what the background thread arranges is no work of the GPU's
    assert all(rank["launchers"] <= {"main", "backward"} for rank in ranks)
