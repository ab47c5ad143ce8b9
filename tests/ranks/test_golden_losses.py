"""Losses of kept runs come back, step by step, on any number of ranks."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from benchmarks.rank_pool import RankPools
from tests.golden_losses.runs import RUNS, golden
from tests.ranks.test_training_parity import train_on
from tpnet_dist.config.schema import Config

LOSS_TOLERANCES = {"uci": 1e-9, "with-features": 1e-5}
"""Of float64 and of float32."""
AP_TOLERANCE = 1e-4
STEPS_IN_FLOAT32 = 12
"""Of UCI; after some twenty rounding has grown to 1e-5, between threads of one rank as between ranks."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("name", [pytest.param("uci", marks=pytest.mark.slow), "with-features"])
def test_any_number_of_ranks_gives_the_kept_losses(
    rank_pools: RankPools, tmp_path: Path, name: str, num_ranks: int
) -> None:
    config = RUNS[name].config(tmp_path / "log")
    first, *_ = rank_pools[num_ranks].run(train_on, config, tmp_path / "run", seconds=900)
    kept = golden(name)
    np.testing.assert_allclose(first["losses"], kept["losses"], rtol=LOSS_TOLERANCES[name])
    assert first["val"]["transductive"]["random"]["ap"] == pytest.approx(kept["val_ap"], abs=AP_TOLERANCE)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("num_ranks", [1, 4])
def test_float32_follows_until_its_rounding_has_grown(
    rank_pools: RankPools, tmp_path: Path, num_ranks: int
) -> None:
    config = RUNS["uci"].config(tmp_path / "log")
    training = replace(config.training, precision="float32", max_steps=STEPS_IN_FLOAT32)
    config = replace(config, training=training)
    first, *_ = rank_pools[num_ranks].run(train_on, config, tmp_path / "run", seconds=900)
    np.testing.assert_allclose(first["losses"], golden("uci")["losses"][:STEPS_IN_FLOAT32], rtol=1e-5)


@pytest.fixture(scope="module")
def alone(rank_pools: RankPools, tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, dict[str, Any]]:
    """Sixty steps of UCI in float32 on one rank: the settings, and what came out."""
    folder = tmp_path_factory.mktemp("alone")
    config = RUNS["uci"].config(folder / "log")
    config = replace(config, training=replace(config.training, precision="float32"))
    [outcome] = rank_pools[1].run(train_on, config, folder / "run", seconds=900)
    return config, outcome


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("num_ranks", "engine"),
    [(2, "ddp"), (3, "ddp"), (4, "ddp"), (1, "deepspeed"), (3, "deepspeed"), (4, "deepspeed")],
)
def test_float32_is_the_same_to_the_last_bit_on_ranks_and_engines(
    rank_pools: RankPools,
    tmp_path: Path,
    alone: tuple[Config, dict[str, Any]],
    num_ranks: int,
    engine: Literal["ddp", "deepspeed"],
) -> None:
    """All sixty steps, and the figures after them."""
    config, wanted = alone
    config = replace(config, training=replace(config.training, engine=engine))
    first, *_ = rank_pools[num_ranks].run(train_on, config, tmp_path / "run", seconds=900)
    assert len(first["losses"]) == 60
    assert first["losses"] == wanted["losses"]
    # DeepSpeed's weights lie elsewhere, and scores of an evaluation may be rounded otherwise
    np.testing.assert_allclose(
        first["val"]["transductive"]["random"]["ap"],
        wanted["val"]["transductive"]["random"]["ap"],
        rtol=0,
        atol=0 if engine == "ddp" else 1e-6,
    )
