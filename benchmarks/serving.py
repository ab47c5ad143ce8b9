"""How fast a server answers: score, top-k and observe over HTTP, by ten clients that ask without pause.

    python -m benchmarks.serving [--data data/uci] [--clients 10] [--seconds 20] [--threads 2]

Each part runs for some seconds: pairs scored one by one; the same while one of the clients observes events; a
mixture in which one client ranks all destinations and one observes. The last kills the server amid 10,000
observes and counts what of the acknowledged it knows when it is back. Clients have a process of their own.
Weights are as drawn: speed does not depend on what they are.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.predict import UCI_EVENTS, random_data, untrained_checkpoint
from benchmarks.results_line import print_results_line
from benchmarks.serving_clients import PATIENCE, observe_until_gone, post, request_of
from tpnet_dist import Predictor
from tpnet_dist.config.whole_numbers import Count
from tpnet_dist.events.reader import EventLog
from tpnet_dist.serving.journal import read_journal
from tpnet_dist.serving.state_folder import JOURNAL, repeat

TARGET_P99_MILLISECONDS = 50


@dataclass(kw_only=True)
class Settings:
    """On what, by whom, how long."""

    data: Path | None = None
    """A data folder; by default a random log of UCI's size."""
    events: Count = UCI_EVENTS
    """The events of that log."""
    clients: int = 10
    """The number of clients at a time."""
    seconds: float = 20.0
    """The seconds of each part."""
    observes: Count = 10_000
    """Acknowledged before the server is killed."""
    threads: int = 2
    """Threads of torch in the server."""


class Server:
    """A process of its own, on this machine alone; ends with the block."""

    def __init__(self, checkpoint: Path, state: Path, threads: int) -> None:
        command = [sys.executable, "-m", "tpnet_dist.serve", checkpoint, "--state", state, "--port", 0]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout is not None
        self.port = 0
        for line in self.process.stdout:
            if " ready at " in line:
                self.port = int(line.partition("127.0.0.1:")[2].partition(",")[0])
                break

    def __enter__(self) -> "Server":
        assert self.port, "the server did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    with tempfile.TemporaryDirectory(prefix="serving-") as name:
        folder = Path(name)
        data = settings.data or random_data(folder / "log", settings.events)
        checkpoint = untrained_checkpoint(data, folder / "drawn.pt")
        log = EventLog(data)
        nodes = log.raw_ids().column("raw_id").to_pylist()
        width = 0 if log.edge_features is None else int(log.edge_features.shape[1])
        results: dict[str, Any] = {}
        for part, kinds in parts_of(settings.clients).items():
            with Server(checkpoint, folder / part, settings.threads) as server:
                results[part] = ask_for(kinds, server.port, nodes, width, settings.seconds)
        results["crash"] = kill_amid_observes(checkpoint, folder / "crash", nodes, width, settings)
    show(results)
    print_results_line(
        "serving",
        {**asdict(settings), "data": str(settings.data or "random"), "nodes": len(nodes), **results},
    )


def parts_of(clients: int) -> dict[str, dict[str, int]]:
    """How many clients of each kind."""
    return {
        "score": {"score": clients},
        "score-observe": {"score": clients - 1, "observe": 1},
        "top-k": {"top-k": clients},
        "mixed": {"score": clients - 2, "top-k": 1, "observe": 1},
    }


def ask_for(
    kinds: dict[str, int], port: int, nodes: list[Any], width: int, seconds: float
) -> dict[str, dict[str, float]]:
    """Ask in a process of its own, which imports little, so that it does not slow the server down."""
    asked = {"kinds": kinds, "port": port, "nodes": nodes, "width": width, "seconds": seconds}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.serving_clients"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=seconds + 2 * PATIENCE,
        check=True,
    )
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


def kill_amid_observes(
    checkpoint: Path, state: Path, nodes: list[Any], width: int, settings: Settings
) -> dict[str, Any]:
    acknowledged: dict[int, str] = {}
    with Server(checkpoint, state, settings.threads) as server:
        watch = time.perf_counter()
        threads = [
            threading.Thread(
                target=observe_until_gone,
                args=(server.port, request_of("observe", nodes, width, number), acknowledged),
            )
            for number in range(settings.clients)
        ]
        for thread in threads:
            thread.start()
        while len(acknowledged) < settings.observes and any(thread.is_alive() for thread in threads):
            time.sleep(0.001)
        seconds, count = time.perf_counter() - watch, len(acknowledged)
        server.process.kill()
        for thread in threads:
            thread.join()
    calls = read_journal(state / JOURNAL).calls
    predictor = Predictor.load(checkpoint)
    first = predictor.num_events + 1
    lost = [
        number
        for number, event in acknowledged.items()
        if number - first >= len(calls) or event != f"{calls.src[number - first]} {calls.dst[number - first]}"
    ]
    repeat(predictor, calls)
    started = time.perf_counter()
    with Server(checkpoint, state, settings.threads) as server:
        back = time.perf_counter() - started
        pairs = {"src": calls.src[-100:], "dst": calls.dst[-100:]}
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        _, text = post(connection, "/score", json.dumps(pairs).encode())
    wanted = predictor.score(pairs["src"], pairs["dst"], predictor.now)
    return {
        "acknowledged": len(acknowledged),
        "observes_per_second": count / seconds,
        "lost": len(lost),
        "replayed": len(calls),
        "seconds_to_come_back": back,
        "largest_difference": float(np.abs(np.array(json.loads(text)["scores"]) - wanted).max()),
    }


def show(results: dict[str, Any]) -> None:
    table = Table("clients ask for", "request", "requests/s", "P50 ms", "P99 ms", "failures")
    for part, kinds in results.items():
        if part == "crash":
            continue
        for kind, found in kinds.items():
            shown = [f"{found[name]:,.1f}" for name in ("per_second", "p50_ms", "p99_ms")]
            table.add_row(part, kind, *shown, str(found["failures"]))
    Console().print(table)
    crash = results["crash"]
    print(
        f"killed after {crash['acknowledged']:,} acknowledged observes, "
        f"{crash['observes_per_second']:,.0f}/s: {crash['lost']} lost; back after "
        f"{crash['seconds_to_come_back']:.1f} s; "
        f"scores differ by {crash['largest_difference']:.1e} from the Predictor's"
    )
    met = results["score-observe"]["score"]["p99_ms"] <= TARGET_P99_MILLISECONDS
    print(f"P99 of one pair with observes in between: {'met' if met else 'missed'}, at most 50 ms is wanted")


if __name__ == "__main__":
    main()
