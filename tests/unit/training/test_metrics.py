"""Metrics against numbers counted by hand, and against scikit-learn's."""

import warnings

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from tests.support.sentences import refused
from tpnet_dist.evaluation.metrics import LinkScores, area_under_roc, average_precision, ranking


def test_ap_and_auc_by_hand():
    """Sorted 4+ 3- 2+ 1-: precisions 1 and 2/3 at recalls 1/2 and 1; three of four pairs in order."""
    scores = LinkScores(np.array([4.0, 2.0]), np.array([3.0, 1.0]))
    ap = 1 / 2 * 1 + 1 / 2 * 2 / 3
    assert scores.metrics(np.array([0, 2])) == pytest.approx(
        {"ap": ap, "auc": 3 / 4, "ap_whole": ap, "auc_whole": 3 / 4}
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("levels", [1, 2, 7, 10**6])
def test_ap_and_auc_are_those_of_scikit_learn_to_the_last_bit(levels: int, dtype: type) -> None:
    """With many ties and with few, of as many events as negatives or not."""
    draw = np.random.default_rng(levels)
    for number in range(60):
        events, negatives = draw.integers(1, 40 if number else 5000, 2)
        is_event = draw.permutation(np.repeat([True, False], [events, negatives]))
        scores = (draw.integers(0, levels, len(is_event)) / levels - 0.5 + 0.1 * is_event).astype(dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = average_precision(is_event, scores), area_under_roc(is_event, scores)
        assert found == (average_precision_score(is_event, scores), roc_auc_score(is_event, scores))


def test_batches_count_alike_however_small():
    """First batch of two perfect, second of one wrong way round: AP 1 and 1/2, AUC 1 and 0.

    Whole, sorted 9+ 8+ 5- 4- 2- 1+: precisions 1, 1, 3/6; six of nine pairs in order.
    """
    scores = LinkScores(np.array([9.0, 8.0, 1.0]), np.array([5.0, 4.0, 2.0]))
    assert scores.metrics(np.array([0, 2, 3])) == pytest.approx(
        {"ap": 3 / 4, "auc": 1 / 2, "ap_whole": (1 + 1 + 1 / 2) / 3, "auc_whole": 6 / 9}
    )


def test_equal_scores_are_worth_half():
    metrics = LinkScores(np.zeros(4), np.zeros(4)).metrics(np.array([0, 4]))
    assert metrics == {"ap": 0.5, "auc": 0.5, "ap_whole": 0.5, "auc_whole": 0.5}


def test_ranks_by_hand_with_ties_counted_half():
    """Ranks 1, 2 (one better), 2.5 (one better, one tie), 11 of 11."""
    positive = np.array([5.0, 5.0, 5.0, 5.0])
    negative = np.array([[1.0] * 10, [6.0] + [1.0] * 9, [6.0, 5.0] + [1.0] * 8, [6.0] * 10])
    assert ranking(positive, negative) == pytest.approx(
        {
            "mrr": (1 + 1 / 2 + 1 / 2.5 + 1 / 11) / 4,
            "hits@1": 1 / 4,
            "hits@3": 3 / 4,
            "hits@10": 3 / 4,
        }
    )


def test_a_model_that_scores_all_alike_ranks_in_the_middle():
    assert ranking(np.zeros(3), np.zeros((3, 9)))["mrr"] == pytest.approx(1 / 5.5)


def test_nothing_scored_gives_no_figures():
    assert LinkScores(np.empty(0), np.empty(0)).metrics(np.array([0])) == {}
    assert ranking(np.empty(0), np.empty((0, 5))) == {}


def test_scores_that_are_no_numbers_are_refused_with_their_count():
    good, bad = np.ones(3), np.array([1.0, np.nan, np.inf])
    with refused():
        LinkScores(bad, good)
    with refused():
        LinkScores(good, bad)
    with refused():
        ranking(np.array([1.0]), np.array([[0.0, np.nan, 2.0]]))


def test_shapes_and_borders_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="one of each per event"):
        LinkScores(np.ones(3), np.ones(2))
    with pytest.raises(ValueError, match="a row of negatives per event"):
        ranking(np.ones(3), np.ones((2, 5)))
    for borders in ([0, 2], [1, 3], [0, 2, 2, 3], [0, 4]):
        with pytest.raises(ValueError, match="do not cut 3 events"):
            LinkScores(np.ones(3), np.ones(3)).metrics(np.array(borders))
