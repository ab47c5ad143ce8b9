"""Whole training is the same by either engine, and about the same in bfloat16."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.rank_pool import RankFailure, RankPools
from tests.ranks.test_training_parity import train_on
from tests.support.command_line import convert
from tests.support.deepspeed_here import needs_deepspeed
from tests.support.event_logs import write_log
from tests.support.shared_folder import shared_folder
from tests.support.training_runs import small_config, small_log

ENGINES = ("ddp", "deepspeed")
TOLERANCE = 1e-5
BFLOAT16_LOSS, BFLOAT16_AP = 0.02, 0.02
"""How far the mean loss of an epoch and AP may be from those in float32, on 1,200 events."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("engines") / "log")


@pytest.fixture(scope="module")
def with_features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, rng = tmp_path_factory.mktemp("engines") / "features", np.random.default_rng(0)
    src, dst = rng.integers(0, 40, (2, 900))
    edge, node = (rng.standard_normal(shape, dtype=np.float32) for shape in ((900, 3), (40, 2)))
    write_log(path, src, dst, np.sort(rng.integers(0, 10**6, 900)), edge_features=edge, node_features=node)
    return path


def require_same_by_both(
    rank_pools: RankPools, ranks: int, folder: Path, run: Path, **training: Any
) -> list[float]:
    """Every step's loss, and what they are."""
    outcomes = []
    for engine in ENGINES:
        settings = {"batch_size": 30, "epochs": 1, "engine": engine, **training}
        config = small_config(folder, training=settings, model={"dropout": 0.0})
        [first, *_] = rank_pools[ranks].run(train_on, config, run / engine, seconds=280)
        outcomes.append(first)
    ddp, deepspeed = outcomes
    np.testing.assert_allclose(deepspeed["losses"], ddp["losses"], rtol=TOLERANCE)
    aps = [each["val"]["transductive"]["random"]["ap"] for each in outcomes]
    assert aps[1] == pytest.approx(aps[0], abs=1e-4)
    losses: list[float] = ddp["losses"]
    return losses


@needs_deepspeed
def test_both_engines_train_the_same(rank_pools: RankPools, folder: Path, tmp_path: Path) -> None:
    assert len(require_same_by_both(rank_pools, 2, folder, tmp_path)) > 20


@needs_deepspeed
@pytest.mark.slow
@pytest.mark.parametrize("batches_per_step", [1, 3])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_both_engines_train_the_same_with_features(
    rank_pools: RankPools, with_features: Path, tmp_path: Path, ranks: int, batches_per_step: int
) -> None:
    """Three epochs, for which each has memory, neighbours and the last, smaller step of its own."""
    training = {"batches_per_step": batches_per_step, "epochs": 3}
    assert len(require_same_by_both(rank_pools, ranks, with_features, tmp_path, **training)) > 15


@needs_deepspeed
@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_both_engines_train_the_same_on_uci(rank_pools: RankPools, tmp_path: Path, ranks: int) -> None:
    convert(shared_folder() / "data/uci/ml_uci.csv", tmp_path / "uci", "--format", "dyglib")
    settings = {"batch_size": 200, "max_steps": 60}
    assert len(require_same_by_both(rank_pools, ranks, tmp_path / "uci", tmp_path, **settings)) == 60


def test_training_in_bfloat16_learns_about_as_well(
    rank_pools: RankPools, folder: Path, tmp_path: Path
) -> None:
    """With dropout, which is the same in both."""
    outcomes = []
    for precision in ("float32", "bfloat16"):
        training = {"epochs": 2, "learning_rate": 1e-3, "precision": precision}
        config = small_config(folder, training=training, memory={"decay": 1e-7})
        [outcome] = rank_pools[1].run(train_on, config, tmp_path / precision)
        outcomes.append(outcome)
    exact, rounded = outcomes
    steps = len(exact["losses"]) // 2
    means = [[np.mean(each["losses"][:steps]), np.mean(each["losses"][steps:])] for each in outcomes]
    assert means[1][1] < means[1][0] - 0.02
    assert rounded["losses"] != exact["losses"]
    np.testing.assert_allclose(means[1], means[0], rtol=BFLOAT16_LOSS)
    aps = [each["test"]["transductive"]["random"]["ap"] for each in outcomes]
    assert aps[1] == pytest.approx(aps[0], abs=BFLOAT16_AP)


@needs_deepspeed
def test_a_loss_that_is_no_number_stops_deepspeed_too(
    rank_pools: RankPools, folder: Path, tmp_path: Path
) -> None:
    config = small_config(folder, training={"engine": "deepspeed", "learning_rate": 1e30})
    with pytest.raises(RankFailure, match="learning_rate"):
        rank_pools[1].run(train_on, config, tmp_path / "run")
