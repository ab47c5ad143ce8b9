"""Clients that ask a server without pause, for `benchmarks.serving`: in a process of their own, soon ready.

What to ask comes as JSON on standard input, and what was found goes out as JSON.
"""

import http.client
import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PATIENCE = 120.0
WARM_UP_SECONDS = 1.0

NextRequest = Callable[[], tuple[str, bytes]]


@dataclass
class Asked:
    """What clients of one kind found."""

    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def summary(self, duration: float) -> dict[str, float]:
        p50, p99 = np.quantile(self.seconds or [0.0], [0.5, 0.99]).tolist()
        return {
            "requests": len(self.seconds),
            "per_second": len(self.seconds) / duration,
            "p50_ms": 1e3 * p50,
            "p99_ms": 1e3 * p99,
            "failures": len(self.failures),
        }


def main() -> None:
    said = json.load(sys.stdin)
    asked = {kind: Asked() for kind in said["kinds"]}
    begins = time.perf_counter() + WARM_UP_SECONDS
    ends = begins + said["seconds"]
    threads = [
        threading.Thread(
            target=_ask,
            args=(
                asked[kind],
                request_of(kind, said["nodes"], said["width"], 100 * place + number),
                said["port"],
                (begins, ends),
            ),
        )
        for place, (kind, count) in enumerate(said["kinds"].items())
        for number in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({kind: each.summary(said["seconds"]) for kind, each in asked.items()}))


def _ask(asked: Asked, request: NextRequest, port: int, measured: tuple[float, float]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    while (begun := time.perf_counter()) < measured[1]:
        path, body = request()
        status, text = post(connection, path, body)
        if begun >= measured[0]:
            asked.seconds.append(time.perf_counter() - begun)
        if status != 200:
            asked.failures.append(text)


def observe_until_gone(port: int, request: NextRequest, acknowledged: dict[int, str]) -> None:
    """Observe until the server is killed; note what it acknowledged, by the number of the event."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    while True:
        path, body = request()
        try:
            status, text = post(connection, path, body)
        except (OSError, http.client.HTTPException):
            return
        assert status == 200, text
        asked = json.loads(body)
        acknowledged[json.loads(text)["events"]] = f"{asked['src'][0]} {asked['dst'][0]}"


def post(connection: http.client.HTTPConnection, path: str, body: bytes) -> tuple[int, str]:
    connection.request("POST", path, body, {"content-type": "application/json"})
    response = connection.getresponse()
    return response.status, response.read().decode()


def request_of(kind: str, nodes: list[Any], width: int, seed: int) -> NextRequest:
    """What a client of this kind asks next."""
    draw = np.random.default_rng(seed)

    def one() -> tuple[str, bytes]:
        src, dst = (nodes[place] for place in draw.integers(0, len(nodes), 2))
        if kind == "top-k":
            return "/top-k", json.dumps({"src": [src], "k": 10}).encode()
        link: dict[str, Any] = {"src": [src], "dst": [dst]}
        if kind == "observe":
            link |= {"time": 0, "late": "now"}
            if width:
                link["features"] = draw.standard_normal((1, width)).tolist()
        return f"/{kind}", json.dumps(link).encode()

    return one


if __name__ == "__main__":
    main()
