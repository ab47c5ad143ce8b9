"""A server in a process of its own on this machine alone, and clients that ask it."""

import ctypes
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.command_line import ROOT

SECONDS = 120.0
_READY = "ready at http://127.0.0.1:"
_DIES_WITH_PARENT = 1
_prctl = ctypes.CDLL(None).prctl


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Client:
    """One connection, kept."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def get(self, path: str) -> Answer:
        return self.send("GET", path)

    def post(self, path: str, **request: Any) -> Answer:
        return self.send("POST", path, json.dumps(request).encode())

    def ask(self, path: str, **request: Any) -> Any:
        """The answer to a request that can be answered."""
        answer = self.post(path, **request)
        assert answer.status == 200, answer.text
        return answer.json

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """`headers`: with _ for -."""
        kind = {} if body is None else {"content-type": "application/json"}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, path, body, {**kind, **self._headers, **named})
        response = self._connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read().decode())


@dataclass
class ServingProcess:
    """Under way, at a port of its own; what it says goes to a file."""

    process: subprocess.Popen[bytes]
    output: Path
    token: str | None
    port: int = 0

    @classmethod
    def start(cls, run: Path, folder: Path, *args: object, token: str | None = None) -> "ServingProcess":
        """`folder`: for its state and its output."""
        command = [sys.executable, "-m", "tpnet_dist.serve", run, "--port", 0, "--state", folder / "state"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        if token is not None:
            environment["TPNET_SERVE_TOKEN"] = token
        output = folder / f"output-{time.monotonic_ns()}.txt"
        with output.open("wb") as file:
            process = subprocess.Popen(
                list(map(str, [*command, *args])),
                stdout=file,
                stderr=file,
                env=environment,
                preexec_fn=lambda: _prctl(_DIES_WITH_PARENT, signal.SIGKILL),
            )
        server = cls(process, output, token)
        try:
            server.port = server._wait_for_port()
        except BaseException:
            server.kill()
            raise
        return server

    def client(self) -> Client:
        return Client(self.port, self.token)

    def stop(self) -> int:
        """The exit code after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=SECONDS)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=SECONDS)

    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def __enter__(self) -> "ServingProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _wait_for_port(self) -> int:
        deadline = time.monotonic() + SECONDS
        while _READY not in self.text():
            assert time.monotonic() < deadline and self.process.poll() is None, self.text()
            time.sleep(0.05)
        return int(self.text().partition(_READY)[2].partition(",")[0])
