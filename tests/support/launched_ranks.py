"""Commands as processes of their own, alone or as ranks, started in a moment.

Another Python takes seconds to import torch. These come from multiprocessing's server, which has imported it
and done nothing else; for the rest they are what a launcher starts: `python -m MODULE ARGS` with an address
to meet at, in a process with an exit code, streams and signals of its own.
"""

import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from tests.support.free_port import free_port
from tests.support.sentences import ROOT

SECONDS = 280.0
NOTHING: Mapping[str, str] = {}


def prepare_server() -> None:
    """The server starts with the first process."""
    get_context("forkserver").set_forkserver_preload(["tests.support.preloaded", __name__])


@dataclass
class Launched:
    """Ranks of a command, under way."""

    processes: list[Any]
    folder: tempfile.TemporaryDirectory[str]

    @classmethod
    def start(
        cls,
        module: str,
        *args: object,
        ranks: int = 1,
        cwd: Path = ROOT,
        env: Mapping[str, str] = NOTHING,
    ) -> "Launched":
        folder = tempfile.TemporaryDirectory(prefix="launched-")
        port = free_port()
        processes = []
        for rank in range(ranks):
            meeting = _meeting(rank, ranks, port) if ranks > 1 else {}
            process = get_context("forkserver").Process(
                target=_run_module,
                args=(module, list(map(str, args)), {**meeting, **env}, cwd, Path(folder.name), rank),
                daemon=True,
            )
            process.start()
            processes.append(process)
        return cls(processes, folder)

    def end(self) -> subprocess.CompletedProcess[str]:
        """What all ranks said, and the exit code of the first that did not end well."""
        deadline = time.monotonic() + SECONDS
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
        late = [rank for rank, process in enumerate(self.processes) if process.is_alive()]
        for rank in late:
            self.processes[rank].kill()
        said = ["".join(self._read(stream, rank) for rank in range(len(self.processes))) for stream in "oe"]
        assert not late, f"ranks {late} did not end: {said}"
        code = next((process.exitcode for process in self.processes if process.exitcode), 0)
        self.folder.cleanup()
        return subprocess.CompletedProcess([], code, *said)

    def _read(self, stream: str, rank: int) -> str:
        path = Path(self.folder.name) / f"{stream}{rank}"
        return path.read_text(errors="replace") if path.exists() else ""


def run_launched(module: str, *args: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return Launched.start(module, *args, **options).end()


def _meeting(rank: int, ranks: int, port: str) -> dict[str, str]:
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    return {
        **{name: str(value) for name, value in place.items()},
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }


def _run_module(
    module: str, args: list[str], env: dict[str, str], cwd: Path, folder: Path, rank: int
) -> None:
    for number, stream in ((1, "o"), (2, "e")):
        os.dup2(os.open(folder / f"{stream}{rank}", os.O_WRONLY | os.O_CREAT), number)
    os.environ.update(env)
    os.chdir(cwd)
    sys.path.insert(0, str(cwd))
    torch.set_num_threads(1)
    sys.argv = [module, *args]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
