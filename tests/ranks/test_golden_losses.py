"""Losses of kept runs come back, step by step, on any number of ranks."""

from pathlib import Path

import numpy as np
import pytest

from tests.golden_losses.runs import RUNS, golden
from tests.rank_pool import RankPools
from tests.ranks.test_training_parity import train_on

LOSS_TOLERANCE = 1e-5
AP_TOLERANCE = 1e-4


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("name", [pytest.param("uci", marks=pytest.mark.slow), "with-features"])
def test_any_number_of_ranks_gives_the_kept_losses(
    rank_pools: RankPools, tmp_path: Path, name: str, num_ranks: int
) -> None:
    config = RUNS[name].config(tmp_path / "log")
    first, *_ = rank_pools[num_ranks].run(train_on, config, tmp_path / "run", seconds=900)
    kept = golden(name)
    np.testing.assert_allclose(first["losses"], kept["losses"], rtol=LOSS_TOLERANCE)
    assert first["val"]["transductive"]["random"]["ap"] == pytest.approx(kept["val_ap"], abs=AP_TOLERANCE)
