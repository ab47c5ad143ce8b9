"""Whom a source is ranked among: by strategy, and without those it is not to be offered."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.predictors import untrained_run
from tests.support.sentences import refused
from tests.support.training_runs import small_config
from tpnet_dist import Predictor
from tpnet_dist.events import EventColumns
from tpnet_dist.events.folder import staged_folder
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.writer import EventLogWriter

EVENTS = [(0, 1), (0, 2), (3, 2), (3, 4), (5, 4), (5, 6), (5, 6), (0, 1)]
"""Of one id space; nodes are 0 … 7, of which 7 meets 6 at last."""


def log_of(folder: Path, events: list[tuple[int, int]]) -> EventLog:
    import pyarrow as pa

    src, dst = np.array(events, np.int32).T
    with staged_folder(folder, overwrite=False) as aside:
        writer = EventLogWriter(aside, log_id="few", time_dtype="int64")
        time = np.arange(len(events), dtype=np.int64)
        writer.append(EventColumns(src, dst, time, np.zeros(len(events), np.float32)))
        degree = np.bincount(np.concatenate([src, dst]))
        writer.finish(pa.table({"raw_id": np.arange(len(degree)), "degree": degree}), source={"command": "t"})
    return EventLog(folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("few")
    log_of(folder / "log", [*EVENTS, (7, 6)])
    return untrained_run(small_config(folder / "log"), folder / "run")


@pytest.fixture
def predictor(run: Path) -> Predictor:
    return Predictor.load(run)


def offered(predictor: Predictor, source: int, k: int, candidates: Any = None, **options: Any) -> set[int]:
    best = predictor.top_k([source], predictor.now, k, candidates, **options)
    return set(best.destinations[best.found].tolist())


def test_popular_ones_have_the_most_events_and_recent_ones_the_latest(predictor: Predictor) -> None:
    assert offered(predictor, 4, 2, "popular", count=3) <= {0, 5, 6}
    assert offered(predictor, 4, 2, "recent", count=2) == {6, 7}
    predictor.observe([2], [3], [predictor.now + 1])
    assert offered(predictor, 4, 2, "recent", count=2) == {2, 3}


def test_two_hops_lead_to_partners_and_theirs_and_then_to_popular_ones(predictor: Predictor) -> None:
    # 0 met 1 and 2, of whom 2 met 3
    assert offered(predictor, 0, 4, "two-hop", count=4) == {0, 1, 2, 3}
    assert offered(predictor, 0, 5, "two-hop", count=5) > {0, 1, 2, 3}
    assert offered(predictor, 0, 4, "two-hop", count=4, exclude_seen=True, exclude_self=True) >= {3}


def test_candidates_have_the_scores_that_all_have(predictor: Predictor) -> None:
    whole = predictor.top_k([0, 5], predictor.now, 8)
    assert whole.found.all()
    everyone = [dict(zip(*pair, strict=True)) for pair in zip(whole.destinations, whole.scores, strict=True)]
    for strategy in ("recent", "popular", "two-hop"):
        some = predictor.top_k([0, 5], predictor.now, 3, strategy, count=5)
        for row, scores in enumerate(everyone):
            wanted = [scores[node] for node in some.destinations[row]]
            np.testing.assert_allclose(some.scores[row], wanted, atol=2e-6)
            assert list(some.scores[row]) == sorted(some.scores[row], reverse=True)


@pytest.mark.parametrize("strategy", [None, "all", "recent", "popular", "two-hop"])
def test_seen_ones_and_oneself_are_left_out_where_asked(predictor: Predictor, strategy: str | None) -> None:
    assert offered(predictor, 0, 8, strategy, exclude_seen=True, exclude_self=True) == {3, 4, 5, 6, 7}
    assert offered(predictor, 0, 8, strategy, exclude_self=True) == {1, 2, 3, 4, 5, 6, 7}
    # the other direction is an event too
    assert offered(predictor, 6, 8, strategy, exclude_seen=True) == {0, 1, 2, 3, 4, 6}
    predictor.observe([0], [7], [predictor.now + 1])
    assert 7 not in offered(predictor, 0, 8, strategy, exclude_seen=True)


def test_unknown_ids_are_refused_unless_they_are_to_be_scored(predictor: Predictor) -> None:
    with refused():
        predictor.score([0, 99], [1, 98], predictor.now)
    with refused():
        predictor.top_k([99], predictor.now, 3)
    with refused():
        predictor.score([0], [1], predictor.now, unknown="ignore")  # type: ignore[arg-type]
    with refused():
        predictor.top_k([0], predictor.now, 3, "recnt")
    assert np.isfinite(predictor.score([99], [1], predictor.now, unknown="score")).all()
    best = predictor.top_k([99], predictor.now, 3, "two-hop", exclude_seen=True, unknown="score")
    assert best.found.all()


def test_embeddings_are_rows_whose_products_fade(predictor: Predictor) -> None:
    rows = predictor.embeddings([0, 1, 0])
    assert rows.shape[0] == 3 and rows.dtype == np.float32
    np.testing.assert_array_equal(rows[0], rows[2])
    later = predictor.embeddings([0], predictor.now + 10**6)
    assert np.abs(later[0, 1:]).sum() < np.abs(rows[0, 1:]).sum()
    with refused():
        predictor.embeddings([99])


def test_predictors_and_logs_tell_what_they_are(predictor: Predictor) -> None:
    shown = repr(predictor)
    assert "TPNet" in shown and "9 of 9 events" in shown and "8 nodes" in shown
    assert "probabilities not calibrated" in shown
    assert repr(predictor.log).endswith(
        f"log: 9 events, 8 nodes, times 0 to 8 {predictor.log.manifest.time_unit})"
    )
    predictor.observe([99], [1], [predictor.now])
    assert "1 observed" in repr(predictor) and "9 nodes" in repr(predictor)
