"""Runs on emulated GPUs go on where they stopped, and serve predictions."""

from pathlib import Path

import numpy as np
import pytest

from tests.cuda.conftest import NO_DROPOUT, Comparer
from tests.cuda.jobs import interrupted, predictions
from tests.cuda.test_training import require_no_problem, require_same
from tests.support.emulated_cuda.ranks import EmulatedRanks
from tests.support.training_runs import small_config
from tpnet_dist.config.schema import Config


def test_a_run_goes_on_where_it_was_interrupted(
    emulated: EmulatedRanks, compare: Comparer, small_folder: Path
) -> None:
    config = small_config(
        small_folder,
        model=NO_DROPOUT,
        training={"batch_size": 40, "epochs": 1, "max_steps": 6},
        checkpoint={"every_steps": 2},
    )
    run = compare.folder_of(config, 2)
    assert emulated.run(interrupted, config, run, 5, ranks=2) == [True, True]
    found = compare(config, 2)
    assert len(found.ranks[0].steps) == 2
    require_same(found)
    require_no_problem(found)


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_predictor_scores_on_a_gpu_as_on_the_host(
    emulated: EmulatedRanks, compare: Comparer, three_epochs: Config, tmp_path: Path, device: str
) -> None:
    run = compare(three_epochs, 1).run
    [(on_host, _, _)] = emulated.run(predictions, run, tmp_path, "cpu")
    [(on_device, problems, current)] = emulated.run(predictions, run, tmp_path, device)
    assert not problems
    # which GPU is the current one is its user's affair
    assert current == 0
    for found, wanted in zip(on_device, on_host, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
