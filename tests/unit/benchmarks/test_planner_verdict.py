"""Whether what was predicted is near enough to what was measured."""

import pytest

from benchmarks.planner import all_within, is_within, pair


@pytest.mark.parametrize(
    ("name", "predicted", "is_near"),
    [
        ("memory", 109, True),
        ("memory", 89, False),
        ("training_ms", 71, True),
        ("training_ms", 131, False),
        ("scoring_ms", 129, True),
        ("propagation_bytes", 100, True),
        ("training_bytes", 101, False),
    ],
)
def test_each_figure_has_its_own_tolerance(name: str, predicted: float, is_near: bool) -> None:
    assert is_within(name, pair(predicted, 100)) is is_near


def test_where_nothing_is_sent_nothing_is_to_be_predicted() -> None:
    assert is_within("training_bytes", pair(0, 0))
    assert not is_within("training_bytes", pair(1, 0))


def test_one_miss_is_a_miss() -> None:
    names = ("memory", "training_ms", "scoring_ms", "propagation_bytes", "training_bytes", "scoring_bytes")
    near = {name: {"is_within": True} for name in names}
    far = {**near, "memory": {"is_within": False}}
    assert all_within([near, far]) == {**dict.fromkeys(names, True), "memory": False}
