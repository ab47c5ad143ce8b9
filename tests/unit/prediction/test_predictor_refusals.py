"""What a predictor refuses: in one sentence, and it is as it was before."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.predictors import ITEMS, SHOP_EVENTS, feature_rows, items, shop_log
from tpnet_dist import Predictor
from tpnet_dist.errors import InputError
from tpnet_dist.prediction import build
from tpnet_dist.prediction import predictor as predictor_module
from tpnet_dist.training.weights_file import read_state, write_state


def with_one(wrong: float) -> np.ndarray:
    rows = feature_rows(2)
    rows[1, 2] = wrong
    return rows


def test_bad_questions_get_one_sentence(predictor: Predictor) -> None:
    now, rows = predictor.now, feature_rows(2)
    refused = {
        f"time {now - 1} is before {now}": lambda: predictor.score(0, 3, now - 1),
        "2 sources and 1 destinations; give as many": lambda: predictor.score([0, 1], [3], now),
        "2 times are given for 1 links": lambda: predictor.score(0, 3, [now, now]),
        "0 times are given for 1 links": lambda: predictor.score([0], [3], []),
        "is not whole, as all times": lambda: predictor.score(0, 3, now + 0.5),
        "NaN or infinite": lambda: predictor.score(0, 3, float("nan")),
        "neither a number nor a date": lambda: predictor.score(0, 3, "soon"),
        "k is 10, but must be within 1…9, the candidates": lambda: predictor.top_k(0, now, 10),
        "k is 0, but must be": lambda: predictor.top_k(0, now, 0),
        r"1 candidates are unknown \(17\)": lambda: predictor.top_k(0, now, 1, [17, 3]),
        "event 0: time 1 is before": lambda: predictor.observe([0, 1], [3, 4], [1, now], rows),
        "event 1: time .* of the one before it": lambda: predictor.observe(
            [0, 1], [3, 4], [now + 2, now + 1], rows
        ),
        "features are absent where": lambda: predictor.observe([0], [3], [now]),
        "id None is neither text nor": lambda: predictor.observe([None, "0"], ["3", "4"], [now, now], rows),
        "id nan is neither text nor": lambda: predictor.observe(["new", np.nan], ["3", "4"], now, rows),
        "an id is empty": lambda: predictor.observe(["new", ""], ["3", "4"], now, rows),
        "event 1: feature 2 is nan, but": lambda: predictor.observe(
            [0, "new"], [3, 4], now, with_one(np.nan)
        ),
        "event 1: feature 2 is inf, but": lambda: predictor.observe([0, "new"], [3, 4], now, with_one(1e300)),
        "features are no numbers": lambda: predictor.observe([0], [3], now, [["a", "b", "c"]]),
        "ids have the shape": lambda: predictor.score([["0", "1"]], [["3", "4"]], now),
        "ids are lists of unequal lengths": lambda: predictor.score([["0"], ["1", "3"]], ["3", "4"], now),
        "room for 1,000": lambda: predictor.observe(
            np.arange(2000) + 50, np.zeros(2000, int), np.full(2000, now), feature_rows(2000)
        ),
    }
    before = predictor.score([0] * ITEMS, items(), now + 1)
    for sentence, ask in refused.items():
        with pytest.raises(InputError, match=sentence):
            ask()
    assert predictor.num_events == SHOP_EVENTS and not predictor.ids.newcomers
    assert predictor.score([0] * ITEMS, items(), now + 1).tolist() == before.tolist()


def test_scores_that_are_not_finite_are_refused_with_their_number(run: Path, tmp_path: Path) -> None:
    state = read_state(run / "checkpoints" / "seed-0" / "best.pt")
    state["model"]["predictor.second.bias"] = torch.full((1,), torch.nan)
    write_state(tmp_path / "diverged.pt", state)
    predictor = Predictor.load(tmp_path / "diverged.pt")
    with pytest.raises(InputError, match="2 of 2 scores are not finite, but must be"):
        predictor.score([0, 1], [3, 4], predictor.now + 1)


def test_bad_loads_get_one_sentence(run: Path, tmp_path: Path) -> None:
    other = shop_log(tmp_path / "other", 200)
    manifest = tmp_path / "other" / "manifest.json"
    assert other.manifest.log_id == "test" and manifest.exists()
    with pytest.raises(InputError, match="until is 999, but must be within 0…240"):
        Predictor.load(run, until=999)
    with pytest.raises(InputError, match="has no seed 5; choose one of 0"):
        Predictor.load(run, seed=5)
    with pytest.raises(InputError, match="is neither a run nor a checkpoint"):
        Predictor.load(tmp_path)
    with pytest.raises(InputError, match="there is no such checkpoint"):
        Predictor.load(tmp_path / "nowhere.pt")


def test_rows_that_do_not_fit_are_refused_before_there_are_any(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "free_bytes", lambda device: 10**6)
    with pytest.raises(
        InputError, match=r"capacity is 1,000,000,000: .* bytes, but 1,000,000 are free on cpu"
    ):
        Predictor.load(run, capacity=10**9)
    assert Predictor.load(run, capacity=5).num_events == SHOP_EVENTS
    monkeypatch.setattr(build, "free_bytes", lambda device: 100)
    with pytest.raises(InputError, match=r"take a machine with more memory$"):
        Predictor.load(run, capacity=0)


def test_rows_that_do_not_fit_a_gpu_are_shown_the_way_to_the_host(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "free_bytes", lambda device: 100)
    monkeypatch.setattr(predictor_module, "usable_device", lambda given: torch.device("cuda"))
    with pytest.raises(InputError, match=r"or use the host's memory: .* CUDA_VISIBLE_DEVICES= before the"):
        Predictor.load(run, capacity=0)


def test_a_device_that_is_not_there_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="device is cuda, but torch finds 0 GPUs; give cpu"):
        Predictor.load(run, device="cuda")
    with pytest.raises(InputError, match="device is 'toaster', which torch does not know; give cpu or cuda"):
        Predictor.load(run, device="toaster")
