"""EdgeBank's four modes give the published scores, through the golden command."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.rank_pool import RankPools
from tests.reference import golden
from tests.reference.golden_edge_bank import SCORES
from tests.support.shared_folder import shared_folder
from tpnet_dist.errors import InputError


@pytest.fixture
def published() -> Path:
    path = shared_folder() / "reference/baselines/edgebank_golden.npz"
    if not path.is_file():
        pytest.skip(f"no golden numbers at {path}")
    return path


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_scores_are_the_published_ones(rank_pools: RankPools, published: Path, num_ranks: int) -> None:
    outcomes = golden.compare(published, None if num_ranks == 1 else rank_pools[num_ranks])
    assert [outcome.check.key for outcome in outcomes] == list(SCORES)
    assert all(outcome.deviation == 0 for outcome in outcomes), outcomes


@pytest.mark.parametrize("key", SCORES)
def test_one_altered_score_fails(tmp_path: Path, published: Path, key: str) -> None:
    with np.load(published) as stored:
        arrays = dict(stored)
    arrays[key][7] = 1 - arrays[key][7]
    np.savez(tmp_path / "altered.npz", **arrays)
    outcomes = golden.compare(tmp_path / "altered.npz", None)
    assert [(one.check.key, one.place) for one in outcomes if not one.holds] == [(key, 7)]


def test_a_file_without_its_history_is_refused(tmp_path: Path, published: Path) -> None:
    with np.load(published) as stored:
        arrays = {key: stored[key] for key in stored.files if key != "history"}
    np.savez(tmp_path / "short.npz", **arrays)
    with pytest.raises(InputError, match="lacks history"):
        golden.compare(tmp_path / "short.npz", None)
