"""A predictor that is told the test part event by event gives the trainer's scores, whoever trained."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.rank_pool import RankPools
from tests.ranks.test_training_parity import config_of_groups
from tests.support.predictors import (
    replayed_scores,
    replayed_scores_of_a_frozen_memory,
    scores_by_trainer,
    shop_log,
    train_run,
)
from tests.support.training_runs import small_config, small_log
from tpnet_dist import Predictor
from tpnet_dist.config.schema import Config
from tpnet_dist.models.dygformer.config import DyGFormerConfig

TOLERANCE = 1e-5
"""Float32 sums are added in another order where links are scored one by one."""
SECONDS = 280.0
"""Where the machine is busy; else it takes a few."""
ONE_EPOCH = {"epochs": 1, "learning_rate": 1e-3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("prediction") / "log", events=600)


def require_the_trainers_scores(rank_pools: RankPools, num_ranks: int, config: Config, run: Path) -> None:
    pool = rank_pools[num_ranks]
    pool.run(train_run, config, run, seconds=SECONDS)
    trainers = pool.run(scores_by_trainer, config, run, seconds=SECONDS)[0]
    found = replayed_scores(run, config, trainers.negative_B)
    assert len(found) == len(trainers.scores_B2) > 30
    assert trainers.scores_B2.std() > 100 * TOLERANCE
    np.testing.assert_allclose(found, trainers.scores_B2, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
def test_a_replayed_test_part_has_the_trainers_scores(
    rank_pools: RankPools, folder: Path, tmp_path: Path, num_ranks: int
) -> None:
    config = small_config(folder, training=ONE_EPOCH)
    require_the_trainers_scores(rank_pools, num_ranks, config, tmp_path / "run")
    require_the_newest_checkpoint_to_be_as_good(tmp_path / "run")


def require_the_newest_checkpoint_to_be_as_good(run: Path) -> None:
    """After one epoch its weights are the best."""
    [newest] = run.glob("checkpoints/seed-0/step-*-epoch-1")
    best, same = Predictor.load(run), Predictor.load(newest)
    raw = best.ids.raw_of(best.ids.destinations())
    scores = [each.score(raw, raw[::-1], each.now) for each in (best, same)]
    assert scores[0].tolist() == scores[1].tolist()


def test_groups_of_equal_times_have_the_trainers_scores(rank_pools: RankPools, tmp_path: Path) -> None:
    require_the_trainers_scores(rank_pools, 1, config_of_groups(tmp_path / "log"), tmp_path / "run")


def test_two_id_spaces_with_features_have_the_trainers_scores(rank_pools: RankPools, tmp_path: Path) -> None:
    shop_log(tmp_path / "log")
    config = small_config(
        tmp_path / "log", model={"profile": "paper"}, memory={"walk": "transition"}, training=ONE_EPOCH
    )
    require_the_trainers_scores(rank_pools, 1, config, tmp_path / "run")


def test_a_model_without_memory_has_the_trainers_scores(
    rank_pools: RankPools, folder: Path, tmp_path: Path
) -> None:
    config = small_config(folder, memory={"enabled": False}, training=ONE_EPOCH)
    require_the_trainers_scores(rank_pools, 1, config, tmp_path / "run")


@pytest.mark.parametrize("profile", ["published", "corrected"])
def test_dygformer_has_the_trainers_scores(
    rank_pools: RankPools, folder: Path, tmp_path: Path, profile: str
) -> None:
    """Links that are asked about have the longest history of all for that of their batch; here it is longer
    than sequences are."""
    model = DyGFormerConfig(
        profile=profile,  # type: ignore[arg-type]
        sequence_length=6,
        patch_size=2,
        time_width=8,
        part_channels=4,
        channels=16,
    )
    config = replace(small_config(folder, training=ONE_EPOCH), model=model)
    require_the_trainers_scores(rank_pools, 2, config, tmp_path / "run")


def test_a_memory_that_stood_still_in_evaluation_gives_the_trainers_scores_within_one_batch(
    rank_pools: RankPools, folder: Path, tmp_path: Path
) -> None:
    config, run = small_config(folder, training=ONE_EPOCH, evaluation={"update": False}), tmp_path / "run"
    rank_pools[1].run(train_run, config, run, seconds=SECONDS)
    trainers = rank_pools[1].run(scores_by_trainer, config, run, seconds=SECONDS)[0]
    found = replayed_scores_of_a_frozen_memory(run, config, trainers.negative_B)
    np.testing.assert_allclose(found, trainers.scores_B2, rtol=0, atol=TOLERANCE)
    recorded = replayed_scores(run, config, trainers.negative_B)
    assert np.abs(recorded - trainers.scores_B2).max() > 100 * TOLERANCE


def test_with_uniform_sampling_events_have_the_trainers_scores_and_negatives_draws_of_their_own(
    rank_pools: RankPools, folder: Path, tmp_path: Path
) -> None:
    config, run = small_config(folder, training=ONE_EPOCH, model={"sampling": "uniform"}), tmp_path / "run"
    rank_pools[1].run(train_run, config, run, seconds=SECONDS)
    trainers = rank_pools[1].run(scores_by_trainer, config, run, seconds=SECONDS)[0]
    found = replayed_scores(run, config, trainers.negative_B)
    np.testing.assert_allclose(found[:, 0], trainers.scores_B2[:, 0], rtol=0, atol=TOLERANCE)
    assert np.abs(found[:, 1] - trainers.scores_B2[:, 1]).max() > 10 * TOLERANCE
