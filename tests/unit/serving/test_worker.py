"""The worker: what is answered together, what waits for what, and what a failure does to those who wait."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.predictors import SHOP_EVENTS, items, untrained_shop
from tpnet_dist import Predictor
from tpnet_dist.serving.journal import Journal, PastOfLog, read_journal
from tpnet_dist.serving.observing import Observer
from tpnet_dist.serving.schemas import ObserveRequest, ScoreRequest, TopKRequest
from tpnet_dist.serving.worker import Busy, Defect, Stopping, Worker

EVENT: dict[str, Any] = {"src": ["0"], "dst": ["3"], "time": 0, "features": [[0.0] * 3], "late": "now"}
LINK: dict[str, Any] = {"src": ["0"], "dst": ["3"]}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def together() -> list[int]:
    """How many links were scored at a time."""
    return []


@pytest.fixture
def commits() -> list[int]:
    """How many requests were synced at a time."""
    return []


@pytest.fixture
def worker(run: Path, tmp_path: Path, together: list[int], commits: list[int]) -> Iterator[Worker]:
    predictor = Predictor.load(run)
    journal = Journal.begin(tmp_path / "events.wal", PastOfLog("log", SHOP_EVENTS))
    observer = Observer(predictor, journal, lambda calls, _: commits.append(calls))
    worker = Worker(predictor, observer, most_waiting=40, most_links=1000, scored_together=together.append)
    yield worker
    if worker._thread.is_alive():
        worker.stop()


def answers(worker: Worker, *requests: Any) -> list[Any]:
    """All asked at once, before the worker begins."""

    async def ask() -> list[Any]:
        asked = [asyncio.ensure_future(worker.answer(request)) for request in requests]
        await asyncio.sleep(0)
        worker.start()
        return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(ask())


def test_short_questions_are_scored_and_events_synced_together(
    worker: Worker, together: list[int], commits: list[int], tmp_path: Path
) -> None:
    found = answers(worker, *[ScoreRequest(**LINK)] * 5, *[ObserveRequest(**EVENT)] * 4)
    assert (together, commits) == ([5], [4])
    # events come first, so that scores know of what was asked before they were given
    assert {answer.events for answer in found[:5]} == {SHOP_EVENTS + 4}
    assert [answer.events - SHOP_EVENTS for answer in found[5:]] == [1, 2, 3, 4]
    assert read_journal(tmp_path / "events.wal").calls.sizes == [1] * 4


def test_one_bad_question_spoils_no_other(worker: Worker) -> None:
    bad = ScoreRequest(src=["zed"], dst=["3"])
    late = ObserveRequest(**{**EVENT, "late": "refuse"})
    found = answers(worker, ScoreRequest(**LINK), bad, ObserveRequest(**EVENT), late)
    assert [type(answer).__name__ for answer in found] == [
        *("ScoreAnswer", "InputError", "ObserveAnswer", "InputError")
    ]


def test_a_long_question_is_of_one_moment_and_short_ones_overtake_it(
    worker: Worker, together: list[int], run: Path
) -> None:
    order: list[str] = []

    async def ask() -> list[Any]:
        async def named(name: str, request: Any) -> Any:
            answer = await worker.answer(request)
            order.append(name)
            return answer

        async def later(name: str, request: Any) -> Any:
            while worker._current is None:
                await asyncio.sleep(0.0001)
            return await named(name, request)

        worker.start()
        return await asyncio.gather(
            named("ranking", TopKRequest(src=["0", "1", "3"] * 30, k=9)),
            later("event", ObserveRequest(**EVENT)),
            later("score", ScoreRequest(**LINK)),
        )

    ranking, event, score = asyncio.run(ask())
    assert order == ["score", "ranking", "event"]
    assert (ranking.events, score.events, event.events) == (SHOP_EVENTS, SHOP_EVENTS, SHOP_EVENTS + 1)
    best = Predictor.load(run).top_k(["0", "1", "3"], ranking.now, 9)
    assert ranking.destinations[:3] == best.destinations.tolist()


def test_no_more_wait_than_may_and_none_after_the_end(worker: Worker) -> None:
    found = answers(worker, *[ScoreRequest(**LINK)] * 42)
    assert [type(answer) for answer in found[40:]] == [Busy, Busy]
    assert len({answer.scores[0] for answer in found[:40]}) == 1
    worker.stop()
    with pytest.raises(Stopping):
        asyncio.run(worker.answer(ScoreRequest(**LINK)))


def test_a_defect_of_one_question_is_told_to_it_alone(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    score = worker.predictor.score

    def defective(src: Any, *args: Any, **options: Any) -> Any:
        assert "11" not in list(src), "a defect"
        return score(src, *args, **options)

    monkeypatch.setattr(worker.predictor, "score", defective)
    found = answers(worker, ScoreRequest(**LINK), ScoreRequest(src=["11"], dst=["3"]))
    assert (type(found[1]), len(found[0].scores)) == (Defect, 1)


def test_a_sync_that_fails_ends_the_worker_and_acknowledges_nothing(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[bool] = []
    worker.failed = lambda: told.append(True)

    def fails(calls: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(worker.observer.journal, "commit", fails)
    found = answers(worker, ObserveRequest(**EVENT), ScoreRequest(src=items()[:1], dst=["3"]))
    worker.stop()
    assert [type(answer) for answer in found] == [Stopping, Stopping]
    assert isinstance(worker.failure, OSError) and told == [True]
