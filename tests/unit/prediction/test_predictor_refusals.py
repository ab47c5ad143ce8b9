"""What a predictor refuses: in one sentence, and it is as it was before."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.predictors import ITEMS, SHOP_EVENTS, feature_rows, items, shop_log
from tests.support.sentences import refused
from tpnet_dist import Predictor
from tpnet_dist.prediction import build
from tpnet_dist.prediction import predictor as predictor_module
from tpnet_dist.training.weights_file import read_state, write_state


def with_one(wrong: float) -> np.ndarray:
    rows = feature_rows(2)
    rows[1, 2] = wrong
    return rows


def test_bad_questions_get_one_sentence(predictor: Predictor) -> None:
    now, rows = predictor.now, feature_rows(2)
    questions = [
        lambda: predictor.score(0, 3, now - 1),
        lambda: predictor.score([0, 1], [3], now),
        lambda: predictor.score(0, 3, [now, now]),
        lambda: predictor.score([0], [3], []),
        lambda: predictor.score(0, 3, now + 0.5),
        lambda: predictor.score(0, 3, float("nan")),
        lambda: predictor.score(0, 3, "soon"),
        lambda: predictor.top_k(0, now, 10),
        lambda: predictor.top_k(0, now, 0),
        lambda: predictor.top_k(0, now, 1, [17, 3]),
        lambda: predictor.observe([0, 1], [3, 4], [1, now], rows),
        lambda: predictor.observe([0, 1], [3, 4], [now + 2, now + 1], rows),
        lambda: predictor.observe([0], [3], [now]),
        lambda: predictor.observe([None, "0"], ["3", "4"], [now, now], rows),
        lambda: predictor.observe(["new", np.nan], ["3", "4"], now, rows),
        lambda: predictor.observe(["new", ""], ["3", "4"], now, rows),
        lambda: predictor.observe([0, "new"], [3, 4], now, with_one(np.nan)),
        lambda: predictor.observe([0, "new"], [3, 4], now, with_one(1e300)),
        lambda: predictor.observe([0], [3], now, [["a", "b", "c"]]),
        lambda: predictor.score([["0", "1"]], [["3", "4"]], now),
        lambda: predictor.score([["0"], ["1", "3"]], ["3", "4"], now),
        lambda: predictor.observe(
            np.arange(2000) + 50, np.zeros(2000, int), np.full(2000, now), feature_rows(2000)
        ),
    ]
    before = predictor.score([0] * ITEMS, items(), now + 1)
    for ask in questions:
        with refused():
            ask()
    assert predictor.num_events == SHOP_EVENTS and not predictor.ids.newcomers
    assert predictor.score([0] * ITEMS, items(), now + 1).tolist() == before.tolist()


def test_scores_that_are_not_finite_are_refused_with_their_number(run: Path, tmp_path: Path) -> None:
    state = read_state(run / "checkpoints" / "seed-0" / "best.pt")
    state["model"]["predictor.second.bias"] = torch.full((1,), torch.nan)
    write_state(tmp_path / "diverged.pt", state)
    predictor = Predictor.load(tmp_path / "diverged.pt")
    with refused():
        predictor.score([0, 1], [3, 4], predictor.now + 1)


def test_bad_loads_get_one_sentence(run: Path, tmp_path: Path) -> None:
    other = shop_log(tmp_path / "other", 200)
    manifest = tmp_path / "other" / "manifest.json"
    assert other.manifest.log_id == "test" and manifest.exists()
    with refused():
        Predictor.load(run, until=999)
    with refused():
        Predictor.load(run, seed=5)
    with refused():
        Predictor.load(tmp_path)
    with refused():
        Predictor.load(tmp_path / "nowhere.pt")


def test_rows_that_do_not_fit_are_refused_before_there_are_any(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "free_bytes", lambda device: 10**6)
    with refused():
        Predictor.load(run, capacity=10**9)
    assert Predictor.load(run, capacity=5).num_events == SHOP_EVENTS
    monkeypatch.setattr(build, "free_bytes", lambda device: 100)
    with refused():
        Predictor.load(run, capacity=0)


def test_rows_that_do_not_fit_a_gpu_are_shown_the_way_to_the_host(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "free_bytes", lambda device: 100)
    monkeypatch.setattr(predictor_module, "usable_device", lambda given: torch.device("cuda"))
    with refused():
        Predictor.load(run, capacity=0)


def test_a_device_that_is_not_there_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with refused():
        Predictor.load(run, device="cuda")
    with refused():
        Predictor.load(run, device="toaster")
