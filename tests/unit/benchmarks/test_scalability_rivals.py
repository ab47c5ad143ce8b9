"""The rivals of the scalability study: what tells the two dense ones apart, and nothing else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import scalability_rivals
from benchmarks.scalability_rivals import Reached, Rival, Settings, run_rival
from benchmarks.scalability_table import rows_of
from data_prep.synth import make_log

EVENTS = 600


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Rival], tuple[Reached, int]]:
    """A rival's record of a small log, and how often it had buffers kept."""
    make_log(tmp_path / "log", kind="random", events=EVENTS)
    asked: list[bool] = []
    monkeypatch.setattr(scalability_rivals, "keep_large_buffers", lambda: asked.append(True))

    def run_one(rival: Rival) -> tuple[Reached, int]:
        asked.clear()
        return run_rival(Settings(log=tmp_path / "log", rival=rival)), len(asked)

    return run_one


def test_only_the_second_dense_rival_keeps_freed_buffers(
    run: Callable[[Rival], tuple[Reached, int]],
) -> None:
    (released, of_released), (kept, of_kept) = run("dense"), run("dense-kept")
    assert (of_released, of_kept) == (0, 1)
    assert released.width == kept.width > 0
    assert released.events == kept.events == EVENTS


def test_each_dense_rival_has_a_column_and_may_be_left_out() -> None:
    ours = {
        "edges": 10**6,
        "contestant": "ours",
        "ranks": 1,
        "seconds": {"neighbours": 1.0, "propagation": 2.0},
        "events_per_second": 5e5,
        "ns_per_event_and_float": 1.0,
        "training": {"p50_ms": 1.0},
        "scoring": {"p50_ms": 1.0},
        "peak_bytes": 0,
        "rows_bytes": 0,
        "rows_resident_of_ideal": 1.0,
        "exchanged": {"propagation": {"bytes_per_event": 0}},
    }
    rival = {"edges": 10**6, "ranks": 1, "outcome": "finished", "events": 10**6, "width": 1, "peak_bytes": 1}
    released = {**rival, "contestant": "dense", "seconds": 60.0}
    kept = {**rival, "contestant": "dense-kept", "seconds": 10.0}
    assert rows_of([ours, released, kept])[0][6:8] == ["30.0", "5.0"]
    assert rows_of([ours, kept])[0][6:8] == ["–", "5.0"]
