"""Two numbers that make probabilities of logits."""

import numpy as np
import pytest

from tpnet_dist.evaluation.calibration import calibrate


def test_the_numbers_that_made_links_happen_are_found() -> None:
    draw = np.random.default_rng(0)
    logits = draw.normal(0, 3, 200_000)
    happened = draw.random(len(logits)) < 1 / (1 + np.exp(-(0.5 * logits + 1)))
    size = min(happened.sum(), (~happened).sum())
    found = calibrate(logits[happened][:size], logits[~happened][:size])
    assert found is not None
    assert found.slope == pytest.approx(0.5, abs=0.02)
    # as many of each: the odds of the rest are left out
    odds = np.log(happened.mean() / (1 - happened.mean()))
    assert found.offset == pytest.approx(1 - odds, abs=0.05)
    likely = found.probabilities(logits.astype(np.float32))
    assert likely.dtype == np.float32
    assert likely.min() >= 0 and likely.max() <= 1


def test_scores_that_part_all_events_keep_a_finite_slope() -> None:
    found = calibrate(np.linspace(5, 9, 50), np.linspace(-9, -5, 50))
    assert found is not None
    assert 0 < found.slope < 10
    assert found.events == 50


def test_without_events_there_is_none() -> None:
    assert calibrate(np.empty(0), np.empty(0)) is None
