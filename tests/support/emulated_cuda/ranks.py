"""Functions on emulated GPUs: one process has loaded everything, and forks a rank for each.

The library must be loaded before torch, so it is not one of the processes that run the tests.
"""

import importlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.emulated_cuda.library import ROOT, loaded
from tests.support.free_port import free_port

SECONDS = 200.0
PRELOADED = ("tests.cuda.jobs", "tests.support.preloaded")


class EmulatedRanks:
    """`run(function, …, ranks=2)` runs it on so many ranks, each with a GPU of its own, and returns what each
    of them returned."""

    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        self._server = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(
        self, function: Callable[..., Any], *args: object, ranks: int = 1, seconds: float = SECONDS
    ) -> list[Any]:
        assert self._server.stdin is not None and self._server.stdout is not None
        with tempfile.TemporaryDirectory(prefix="emulated-") as folder:
            name = f"{function.__module__}:{function.__qualname__}"
            pickle.dump(_Job(name, args, ranks, Path(folder), seconds), self._server.stdin)
            self._server.stdin.flush()
            assert self._server.stdout.readline() == b"done\n", "the emulated device's process has ended"
            outcomes = [_read(Path(folder) / str(rank)) for rank in range(ranks)]
        failures = [text for _, text in outcomes if text]
        assert not failures, "\n".join(failures)
        return [result for result, _ in outcomes]

    def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(timeout=30)


def _read(path: Path) -> tuple[Any, str]:
    """What a rank returned, or how it failed."""
    if not path.exists():
        return None, f"rank {path.name} ended without an answer"
    answer: tuple[Any, str] = pickle.loads(path.read_bytes())
    return answer


@dataclass(frozen=True)
class _Job:
    function: str
    args: tuple[object, ...]
    ranks: int
    folder: Path
    seconds: float

    def run(self) -> None:
        port = free_port()
        children = {}
        for rank in range(self.ranks):
            child = os.fork()
            if not child:
                self._be(rank, port)
            children[child] = rank
        deadline = time.monotonic() + self.seconds
        while children and time.monotonic() < deadline:
            for child in list(children):
                if os.waitpid(child, os.WNOHANG)[0]:
                    del children[child]
            time.sleep(0.02)
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def _be(self, rank: int, port: str) -> None:
        """Never returns."""
        from tests.support.emulated_cuda.device import EmulatedDevice

        if self.ranks > 1:
            os.environ |= {
                **{"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1"},
                **{"WORLD_SIZE": str(self.ranks), "LOCAL_WORLD_SIZE": str(self.ranks)},
                "MASTER_PORT": port,
            }
        # what the rank prints is not an answer
        os.dup2(2, 1)
        result, text = None, ""
        try:
            module, _, name = self.function.partition(":")
            with EmulatedDevice():
                result = getattr(importlib.import_module(module), name)(*self.args)
        except BaseException:
            text = f"rank {rank}:\n{traceback.format_exc()}"
        path = self.folder / str(rank)
        path.with_suffix(".part").write_bytes(pickle.dumps((result, text)))
        path.with_suffix(".part").replace(path)
        sys.stderr.flush()
        os._exit(0)


def _serve() -> None:
    loaded()
    import torch

    from tests.support.emulated_cuda import torch_cuda

    torch.set_num_threads(1)
    torch_cuda.install()
    for module in PRELOADED:
        importlib.import_module(module)
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        job.run()
        print("done", flush=True)


if __name__ == "__main__":
    # jobs are unpickled as this module's
    from tests.support.emulated_cuda import ranks

    ranks._serve()
