"""What the server refuses: bad requests, by a clear 4xx and never a 500, and bad command lines."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import run_here, sentence_of
from tests.support.predictors import SHOP_EVENTS, items, untrained_shop
from tests.support.sentences import same_sentence
from tests.support.serving_process import Client, ServingProcess
from tpnet_dist import serve

TOKEN = "0123456789abcdef-0123456789abcdef"
ROW = [0.0, 0.0, 0.0]
EVENT: dict[str, Any] = {"src": ["0"], "dst": ["3"], "time": 10_000, "features": [ROW]}
LINK: dict[str, Any] = {"src": ["0"], "dst": ["3"]}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return untrained_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def server(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingProcess]:
    folder = tmp_path_factory.mktemp("served")
    with ServingProcess.start(run, folder, "--most-megabytes", 1, "--most-links", 50, token=TOKEN) as server:
        yield server
        assert "Traceback" not in server.text()


@pytest.fixture
def client(server: ServingProcess) -> Iterator[Client]:
    client = server.client()
    yield client
    # whatever was refused changed nothing
    assert client.get("/health").json["events"] == SHOP_EVENTS


UNUSABLE: dict[str, tuple[str, dict[str, Any]]] = {
    "a field that is missing": ("/score", {"src": ["0"]}),
    "a field nobody knows": ("/score", {**LINK, "times": 3}),
    "no links": ("/score", {"src": [], "dst": []}),
    "a fraction as id": ("/score", {**LINK, "src": [1.5]}),
    "a truth as id": ("/score", {**LINK, "src": [True]}),
    "nothing as id": ("/score", {**LINK, "src": [None]}),
    "an id of blanks": ("/score", {**LINK, "src": ["  "]}),
    "an id that is no text": ("/score", {**LINK, "dst": ["\ud800"]}),
    "a number beyond 64 bits": ("/score", {**LINK, "src": [2**63]}),
    "fewer destinations": ("/score", {"src": ["0", "1"], "dst": ["3"]}),
    "an unknown id": ("/score", {"src": ["0", "zed"], "dst": ["3", "3"]}),
    "an unknown source": ("/top-k", {"src": ["zed"], "k": 1}),
    "an unknown candidate": ("/top-k", {"src": ["0"], "k": 1, "candidates": ["3", "zed"]}),
    "a time that has passed": ("/score", {**LINK, "time": 3}),
    "times for other links": ("/score", {**LINK, "time": [5000, 5001, 5002]}),
    "a fraction as time": ("/score", {**LINK, "time": 5000.5}),
    "a date for a log without": ("/score", {**LINK, "time": "2024-02-29"}),
    "a date that is none": ("/score", {**LINK, "time": "2023-02-29"}),
    "a date before all": ("/score", {**LINK, "time": "0001-01-01T00:00+23:00"}),
    "a time beyond 64 bits": ("/score", {**LINK, "time": 2**63 - 1}),
    "dates among numbers": ("/score", {"src": ["0"] * 2, "dst": ["3"] * 2, "time": [5000, "2024-01-01"]}),
    "a k above the candidates": ("/top-k", {"src": ["0"], "k": 10}),
    "a k of 0": ("/top-k", {"src": ["0"], "k": 0}),
    "more links than may be": ("/top-k", {"src": ["0"] * 6, "k": 1}),
    "an event before the last": ("/observe", {**EVENT, "time": 3}),
    "events out of order": (
        "/observe",
        {"src": ["0"] * 2, "dst": ["3"] * 2, "time": [10_001, 10_000], "features": [ROW] * 2},
    ),
    "no features": ("/observe", {name: EVENT[name] for name in ("src", "dst", "time")}),
    "features of another width": ("/observe", {**EVENT, "features": [[0.0]]}),
    "features of several widths": ("/observe", {**EVENT, "features": [ROW, [0.0]]}),
    "features beyond float32": ("/observe", {**EVENT, "features": [[0.0, 1e300, 0.0]]}),
    "no time": ("/observe", {**EVENT, "time": None}),
    "more newcomers than there is room": (
        "/observe",
        {
            "src": [f"n{n}" for n in range(1001)],
            "dst": ["3"] * 1001,
            "time": 10_000,
            "features": [ROW] * 1001,
        },
    ),
}


@pytest.mark.parametrize(("path", "request_"), UNUSABLE.values(), ids=UNUSABLE)
def test_what_cannot_be_used_gets_422_and_a_sentence(
    client: Client, path: str, request_: dict[str, Any]
) -> None:
    answer = client.post(path, **request_)
    assert answer.status == 422, answer.text
    assert "; " in same_sentence(answer.json["detail"])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"src": [1], "dst": [',
        b"\xff\xfe",
        b"[" * 50_000,
        b'{"src": [' + b"1" * 5000 + b"]}",
        b"null",
        b"7",
        b'{"src": [NaN], "dst": [Infinity]}',
    ],
    ids=lambda body: repr(body[:12]),
)
def test_what_is_no_request_gets_a_4xx(client: Client, body: bytes) -> None:
    answer = client.send("POST", "/score", body)
    assert answer.status in (400, 422), answer.text
    assert answer.json["detail"]


def test_what_is_too_large_is_refused_before_it_is_read(server: ServingProcess, client: Client) -> None:
    large = json.dumps({"src": ["0"] * 100_000, "dst": ["3"] * 100_000}).encode() + b" " * 1_000_000
    for body in (large, iter([large])):  # with its length, and in chunks
        answer = server.client().send("POST", "/score", body)
        assert answer.status == 413
    # a client that reads only after it has sent everything still gets the answer
    body = b" " * 30_000_000
    assert server.client().send("POST", "/score", body).status == 413
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as link:
        head = f"POST /score HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        link.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n".encode())
        assert b" 413 " in link.recv(1000)
    many = client.post("/score", src=["0"] * 10_001, dst=["3"] * 10_001)
    assert many.status == 422


def test_without_the_token_nothing_but_health_and_docs_answers(server: ServingProcess) -> None:
    for token in (None, "", TOKEN[:-1], TOKEN + "x", "ä"):
        stranger = Client(server.port, token)
        for method, path in (("POST", "/score"), ("POST", "/observe"), ("GET", "/metrics"), ("GET", "/x")):
            body = b"{}" if method == "POST" else None
            answer = stranger.send(method, path, body)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert {stranger.get(path).status for path in ("/health", "/openapi.json", "/docs")} == {200}
    assert Client(server.port).send("GET", "/metrics", authorization=f"Basic {TOKEN}").status == 401


def test_other_paths_methods_and_kinds_of_content_are_refused(client: Client) -> None:
    assert client.get("/nothing").status == 404
    assert {client.get("/score").status, client.send("POST", "/health", b"x").status} == {405}
    assert client.send("PUT", "/observe", b"{}").status == 405
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert client.send("POST", "/score", json.dumps(LINK).encode(), content_type=kind).status == 415
    assert client.ask("/score", **LINK)["scores"]


def test_without_a_token_only_this_machines_names_are_served(run: Path, tmp_path: Path) -> None:
    with ServingProcess.start(run, tmp_path) as server:
        client = server.client()
        assert client.send("GET", "/health", host="evil.example").status == 403
        assert client.send("GET", "/health", host=f"localhost:{server.port}").status == 200
        # the same events are not served by two
        other = run_here(serve.main, run, "--port", 0, "--state", tmp_path / "state")
        sentence_of(other, serve.PROGRAM)
        port = run_here(serve.main, run, "--port", server.port, "--state", tmp_path / "other")
        sentence_of(port, serve.PROGRAM, varies=r"127.0.0.1:\d+")


def test_metrics_count_what_was_answered(client: Client) -> None:
    client.ask("/score", **LINK)
    client.ask("/top-k", src=["0"], k=2, candidates=items()[:3])
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    values = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
    assert float(values['tpnet_requests_total{path="/score",status="200"}']) >= 1
    assert float(values['tpnet_request_seconds_count{path="/top-k"}']) >= 1
    assert (float(values["tpnet_events"]), float(values["tpnet_events_observed"])) == (SHOP_EVENTS, 0)
    assert float(values["process_resident_memory_bytes"]) > 1e7


REFUSED_COMMANDS = (
    "",
    "RUN --port 70000",
    "RUN --most-megabytes 0",
    "RUN --host 0.0.0.0",
    "RUN --host 0.0.0.0 --token-file SHORT",
    "RUN --token-file ABSENT",
    "RUN --state ABSENT/state",
    "RUN --sed 3",
    "ABSENT",
)


@pytest.mark.parametrize("args", REFUSED_COMMANDS)
def test_commands_that_cannot_be_done_are_refused_and_leave_nothing(
    run: Path, tmp_path: Path, args: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(serve.TOKEN_VARIABLE, raising=False)
    (tmp_path / "short.txt").write_text("secret\n")
    before = sorted(run.iterdir())
    places = {"RUN": run, "SHORT": tmp_path / "short.txt", "ABSENT": tmp_path / "absent"}
    words = args.split()
    given = [str(places.get(word.partition("/")[0], "")) or word for word in words]
    given = [f"{one}/state" if "/state" in word else one for one, word in zip(given, words, strict=True)]
    sentence_of(run_here(serve.main, *given, *(("--port", 0) if "--port" not in args else ())), serve.PROGRAM)
    assert sorted(run.iterdir()) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["short.txt"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_schemathesis_finds_nothing(run: Path, tmp_path: Path) -> None:
    """Requests made of the service's own OpenAPI: valid ones, ones that break a rule, ones without token."""
    with ServingProcess.start(run, tmp_path, token=TOKEN) as server:
        command = [
            *(
                sys.executable,
                "-m",
                "schemathesis.cli",
                "run",
                f"http://127.0.0.1:{server.port}/openapi.json",
            ),
            *("--header", f"Authorization: Bearer {TOKEN}", "--max-examples", "50", "--seed", "1"),
            *("--phases", "examples,coverage,fuzzing", "--workers", "1", "--no-color"),
            # a request may be of the right form and still name nobody
            *("--exclude-checks", "positive_data_acceptance"),
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        assert "Traceback" not in server.text()
        assert server.client().get("/health").json["status"] == "ok"
        assert server.stop() == 0
