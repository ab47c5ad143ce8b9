"""A predictor that is told the test part event by event gives the trainer's scores, whoever trained."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.predictors import replayed_scores, scores_by_trainer, train_run
from tests.rank_pool import RankPools
from tests.training_runs import small_config, small_log
from tpnet_dist.config import Config

TOLERANCE = 1e-5
"""Float32 sums are added in another order where batches are scored one by one."""

VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "events": {},
    "timestamps": {"data": {"batching": "timestamps"}},
    "paper profile, transition walks": {"model": {"profile": "paper"}, "memory": {"walk": "transition"}},
    "no memory": {"memory": {"enabled": False}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("prediction") / "log")


def require_the_trainers_scores(rank_pools: RankPools, num_ranks: int, config: Config, run: Path) -> None:
    pool = rank_pools[num_ranks]
    pool.run(train_run, config, run)
    trainers = pool.run(scores_by_trainer, config, run)[0]
    found = replayed_scores(run, config, trainers.negative_N)
    assert len(found) == len(trainers.scores_N2) > 100
    assert trainers.scores_N2.std() > 1e-3
    np.testing.assert_allclose(found, trainers.scores_N2, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_a_replayed_test_part_has_the_trainers_scores(
    rank_pools: RankPools, folder: Path, tmp_path: Path, num_ranks: int
) -> None:
    config = small_config(folder, training={"learning_rate": 1e-3})
    require_the_trainers_scores(rank_pools, num_ranks, config, tmp_path / "run")


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "events"])
def test_other_settings_too(rank_pools: RankPools, folder: Path, tmp_path: Path, variant: str) -> None:
    config = small_config(folder, **{"training": {"epochs": 1}, **VARIANTS[variant]})
    require_the_trainers_scores(rank_pools, 1, config, tmp_path / "run")
