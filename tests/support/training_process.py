"""A training run that tests can stop, kill and freeze: torchrun and its ranks, or one rank alone."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support.command_line import ROOT
from tests.support.training_runs import flags_of, small_config

SECONDS = 240.0


@dataclass
class TrainingProcess:
    """Under way; what it says goes to a file."""

    process: subprocess.Popen[bytes]
    output: Path
    ranks: int
    """Of this launcher; there may be others."""
    has_launcher: bool

    @classmethod
    def start(
        cls,
        folder: Path,
        run: Path | None,
        *args: object,
        ranks: int,
        launch: tuple[str, ...] = (),
        meeting: tuple[str, ...] = ("--standalone",),
        **env: str,
    ) -> "TrainingProcess":
        """`launch`: more arguments for torchrun; `meeting`: how it meets others, if it is not alone."""
        launcher: list[object] = [sys.executable]
        has_launcher = ranks > 1 or meeting != ("--standalone",)
        if has_launcher:
            launcher += ["-m", "torch.distributed.run", *meeting, f"--nproc_per_node={ranks}", *launch]
        where = () if run is None else ("--run-dir", run)
        flags = flags_of(small_config(folder))
        command = [*launcher, "-m", "tpnet_dist.train", folder, *where, *flags, *args]
        output = folder.parent / f"output-{time.monotonic_ns()}.txt"
        # as many threads in all runs: sums are added up in another order otherwise
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **env}
        with output.open("wb") as file:
            process = subprocess.Popen(
                list(map(str, command)), cwd=folder.parent, stdout=file, stderr=file, env=environment
            )
        return cls(process, output, ranks, has_launcher)

    def rank_ids(self) -> list[int]:
        """Process ids, in the order of ranks."""
        if not self.has_launcher:
            return [self.process.pid]
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return sorted(int(child) for child in children if b"tpnet_dist.train" in _command_of(int(child)))

    def wait_until(self, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + SECONDS
        while not holds():
            assert time.monotonic() < deadline, self.text()
            assert self.process.poll() is None, self.text()
            time.sleep(0.005)

    def send(self, number: signal.Signals, *ranks: int) -> None:
        ids = self.rank_ids()
        for rank in ranks:
            os.kill(ids[rank], number)

    def end(self) -> int:
        """The exit code of the launcher, once it and its ranks are gone."""
        ids = self.rank_ids() if self.process.poll() is None else []
        code = self.process.wait(timeout=SECONDS)
        deadline = time.monotonic() + SECONDS
        while any(_is_alive(one) for one in ids):
            assert time.monotonic() < deadline, self.text()
            time.sleep(0.05)
        return code

    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def lines(self, start: str = "python -m tpnet_dist.train: ") -> list[str]:
        return [line.removeprefix(start) for line in self.text().splitlines() if line.startswith(start)]


def _command_of(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def _is_alive(process: int) -> bool:
    return bool(_command_of(process))  # a zombie's is empty
