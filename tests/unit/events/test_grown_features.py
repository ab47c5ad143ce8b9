"""Rows of a matrix and rows added later are looked up by one number."""

import numpy as np

from tpnet_dist.events.grown_features import GrownFeatures


def test_rows_of_both_parts_are_found() -> None:
    matrix = np.arange(12, dtype=np.float32).reshape(6, 2)
    features = GrownFeatures(matrix, 4)
    for start in range(0, 5000, 7):
        features.append(np.stack([np.arange(start, start + 7), -np.arange(start, start + 7)], 1))
    rows = np.array([[0, 4], [3, 5003]])
    assert features[rows].tolist() == [[[0, 1], [0, 0]], [[6, 7], [4999, -4999]]]
    assert features[np.array([3, 1])].tolist() == [[6, 7], [2, 3]]


def test_before_the_first_event_empty_slots_have_no_features() -> None:
    features = GrownFeatures(np.ones((6, 2), np.float32), 0)
    assert features[np.array([[0, 0]])].tolist() == [[[0, 0], [0, 0]]]
