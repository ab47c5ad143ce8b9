"""The server as a user runs it: a process of its own, asked over HTTP on this machine."""

import http.client
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.predictors import ITEMS, SHOP_EVENTS, feature_rows, items, untrained_shop
from tests.support.serving_process import Answer, Client, ServingProcess
from tpnet_dist import Predictor
from tpnet_dist.serving.journal import ObservedCalls, read_journal
from tpnet_dist.serving.state_folder import JOURNAL, ROWS, repeat

TOLERANCE = 2e-6
"""Links scored in other company: float32 sums may be added in another order."""
USERS = [str(n) if n != 2 else "x2" for n in range(ITEMS)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def unchanged(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingProcess]:
    """A server that is asked, but told nothing and not ended."""
    with ServingProcess.start(run, tmp_path_factory.mktemp("served")) as server:
        yield server


@pytest.fixture
def server(run: Path, tmp_path: Path) -> Iterator[ServingProcess]:
    with ServingProcess.start(run, tmp_path) as server:
        yield server


def assert_scores_of(client: Client, predictor: Predictor) -> None:
    answer = client.ask("/score", src=USERS, dst=items())
    assert (answer["events"], answer["now"]) == (predictor.num_events, predictor.now)
    wanted = predictor.score(USERS, items(), predictor.now)
    assert len(set(wanted.tolist())) == ITEMS
    np.testing.assert_allclose(answer["scores"], wanted, rtol=0, atol=TOLERANCE)


def repeated(run: Path, calls: ObservedCalls) -> Predictor:
    predictor = Predictor.load(run)
    repeat(predictor, calls)
    return predictor


# ---- the predictor's own numbers ---------------------------------------------------------------------------


def test_scores_and_rankings_are_the_predictors(unchanged: ServingProcess, run: Path) -> None:
    predictor, client = Predictor.load(run), unchanged.client()
    assert_scores_of(client, predictor)
    moment = predictor.now + 7

    def one(place: int) -> float:
        [score] = unchanged.client().ask(
            "/score", src=[USERS[place]], dst=[items()[place]], time=moment, probability=place % 2 == 1
        )["scores"]
        return score

    with ThreadPoolExecutor(ITEMS) as clients:
        together = list(clients.map(one, range(ITEMS)))
    wanted = predictor.score(USERS, items(), moment)
    shares = predictor.score(USERS, items(), moment, probability=True)
    wanted[1::2] = shares[1::2]
    np.testing.assert_allclose(together, wanted, rtol=0, atol=TOLERANCE)

    best, answer = predictor.top_k(USERS, moment, 4), client.ask("/top-k", src=USERS, k=4, time=moment)
    assert answer["destinations"] == best.destinations.tolist()
    np.testing.assert_allclose(answer["scores"], best.scores, rtol=0, atol=TOLERANCE)
    among = ["x2", 5, "5", 0]
    best, answer = (
        predictor.top_k("1", moment, 3, among),
        client.ask("/top-k", src=["1"], k=3, time=moment, candidates=among),
    )
    assert [list(map(str, row)) for row in answer["destinations"]] == best.destinations.tolist()


@pytest.mark.parametrize("candidates", [None, "recent", "popular", "two-hop"])
def test_whom_a_source_knows_is_left_out(
    unchanged: ServingProcess, run: Path, candidates: str | None
) -> None:
    predictor, without = Predictor.load(run), {"exclude_seen": True, "exclude_self": True}
    chosen = {} if candidates is None else {"candidates": candidates, "count": 5}
    best = predictor.top_k(USERS, predictor.now, 4, candidates, count=5, **without)
    answer = unchanged.client().ask("/top-k", src=USERS, k=4, **without, **chosen)
    wanted = zip(best.destinations, best.scores, best.found, strict=True)
    for (found, scores, is_there), *given in zip(
        wanted, answer["destinations"], answer["scores"], strict=True
    ):
        assert given[0] == found[is_there].tolist()
        np.testing.assert_allclose(given[1], scores[is_there], rtol=0, atol=TOLERANCE)
    assert not best.found.all()


def test_a_long_request_has_the_same_scores(unchanged: ServingProcess, run: Path) -> None:
    predictor = Predictor.load(run)
    src, dst = USERS * 30, items() * 30
    answer = unchanged.client().ask("/score", src=src, dst=dst, unknown="score")
    np.testing.assert_allclose(
        answer["scores"], predictor.score(src, dst, predictor.now), rtol=0, atol=TOLERANCE
    )


def test_later_scores_know_of_observed_events(server: ServingProcess, run: Path, tmp_path: Path) -> None:
    predictor, client = Predictor.load(run), server.client()
    later = int(predictor.now) + 5
    calls: list[tuple[Any, ...]] = [
        (["0", "newcomer"], ["x2", "new item"], [later, later + 1], feature_rows(2).tolist()),
        (["newcomer"], ["3"], later + 1, feature_rows(1).tolist()),
    ]
    for src, dst, time, features in calls:
        answer = client.ask("/observe", src=src, dst=dst, time=time, features=features)
        predictor.observe(src, dst, time, features)
        assert (answer["observed"], answer["events"]) == (len(src), predictor.num_events)
    assert_scores_of(client, predictor)
    answer = client.ask(
        "/observe", src=["1"], dst=["1"], time=later - 3, features=feature_rows(1).tolist(), late="now"
    )
    assert (answer["late"], answer["now"]) == (1, later + 1)
    refused = client.post(
        "/observe", src=["1"], dst=["1"], time=later + 3, features=feature_rows(1).tolist(), if_events=240
    )
    assert refused.status == 409
    health = client.get("/health").json
    assert (health["events"], health["observed"]) == (SHOP_EVENTS + 4, 4)
    # the end is clean, and the next start takes the rows that were kept
    assert server.stop() == 0, server.text()
    calls_kept = read_journal(tmp_path / "state" / JOURNAL).calls
    assert calls_kept.sizes == [2, 1, 1]
    with ServingProcess.start(run, tmp_path) as again:
        assert "4 of them observed" in again.text()
        assert_scores_of(again.client(), repeated(run, calls_kept))
    (tmp_path / "state" / ROWS).write_bytes(b"not rows")
    with ServingProcess.start(run, tmp_path) as again:
        assert ROWS in again.text()
        assert_scores_of(again.client(), repeated(run, calls_kept))


# ---- crashes -----------------------------------------------------------------------------------------------


def observe_until_killed(server: ServingProcess, clients: int, kill_after: int) -> dict[int, tuple[str, str]]:
    """What was acknowledged, by the number of the event; the server is killed with many on their way."""
    acknowledged: dict[int, tuple[str, str]] = {}
    refused: list[Answer] = []
    is_enough = threading.Event()

    def observe(number: int) -> None:
        client, draw = server.client(), np.random.default_rng(number)
        while True:
            src, dst = str(draw.integers(3, 11)), str(draw.integers(3, ITEMS))
            rows = draw.standard_normal((1, 3)).tolist()
            try:
                answer = client.post("/observe", src=[src], dst=[dst], time=0, features=rows, late="now")
            except (OSError, http.client.HTTPException):
                return
            if answer.status != 200:
                refused.append(answer)
                is_enough.set()
                return
            acknowledged[answer.json["events"]] = (src, dst)
            if len(acknowledged) >= kill_after:
                is_enough.set()

    threads = [threading.Thread(target=observe, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    assert is_enough.wait(240), server.text()
    assert not refused
    server.kill()
    for thread in threads:
        thread.join()
    return acknowledged


def assert_nothing_lost(run: Path, folder: Path, acknowledged: dict[int, tuple[str, str]]) -> None:
    calls = read_journal(folder / "state" / JOURNAL).calls
    for number, event in acknowledged.items():
        place = number - SHOP_EVENTS - 1
        assert (calls.src[place], calls.dst[place]) == event
    with ServingProcess.start(run, folder) as again:
        client = again.client()
        assert client.get("/health").json["observed"] == len(calls) >= max(acknowledged) - SHOP_EVENTS
        assert_scores_of(client, repeated(run, calls))


def test_a_kill_amid_observing_loses_nothing_acknowledged(run: Path, tmp_path: Path) -> None:
    acknowledged: dict[int, tuple[str, str]] = {}
    for kill_after in (60, 300):
        with ServingProcess.start(run, tmp_path) as server:
            acknowledged |= observe_until_killed(server, 8, kill_after)
    assert len(acknowledged) >= 360
    assert_nothing_lost(run, tmp_path, acknowledged)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_kill_amid_ten_thousand_observes_loses_nothing_acknowledged(run: Path, tmp_path: Path) -> None:
    with ServingProcess.start(run, tmp_path) as server:
        acknowledged = observe_until_killed(server, 10, 10_000)
    assert_nothing_lost(run, tmp_path, acknowledged)


def test_the_end_answers_what_was_asked(server: ServingProcess) -> None:
    answers: list[Any] = []

    def rank() -> None:
        answers.append(server.client().post("/top-k", src=USERS * 11, k=3))

    threads = [threading.Thread(target=rank) for _ in range(3)]
    for thread in threads:
        thread.start()
    watcher = server.client()
    while watcher.get("/health").json["waiting"] < 3 and not answers:
        pass
    assert server.stop() == 0, server.text()
    for thread in threads:
        thread.join()
    assert [answer.status for answer in answers] == [200] * 3
