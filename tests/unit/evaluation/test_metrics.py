"""AP and AUC are scikit-learn's."""

import warnings

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from tpnet_dist.evaluation.metrics import LinkScores, area_under_roc, average_precision


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("levels", [1, 2, 7, 10**6])
def test_ap_and_auc_are_those_of_scikit_learn_to_the_last_bit(levels: int, dtype: type) -> None:
    """With many ties and with few."""
    draw = np.random.default_rng(levels)
    for number in range(60):
        events, negatives = draw.integers(1, 40 if number else 5000, 2)
        is_event = draw.permutation(np.repeat([True, False], [events, negatives]))
        scores = (draw.integers(0, levels, len(is_event)) / levels - 0.5 + 0.1 * is_event).astype(dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = average_precision(is_event, scores), area_under_roc(is_event, scores)
        assert found == (average_precision_score(is_event, scores), roc_auc_score(is_event, scores))


def test_perfect_wrong_and_constant_scores_have_their_auc() -> None:
    is_event = np.array([True, True, False, False])
    for scores, wanted in (([3.0, 2.0, 1.0, 0.0], 1.0), ([0.0, 0.0, 1.0, 1.0], 0.0), ([1.0] * 4, 0.5)):
        assert area_under_roc(is_event, np.array(scores)) == wanted
    assert average_precision(is_event, np.array([3.0, 2.0, 1.0, 0.0])) == 1.0


def test_batches_count_alike_and_the_whole_is_one_more_figure() -> None:
    positive, negative = np.array([3.0, 1.0, 0.5]), np.array([2.0, 0.0, 0.7])
    figures = LinkScores(positive, negative).metrics(np.array([0, 2, 3]))
    assert figures["auc"] == pytest.approx((0.75 + 0.0) / 2)
    assert figures["auc_whole"] == pytest.approx(6 / 9)
