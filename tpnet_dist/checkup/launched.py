"""Start ranks as a user does, by torchrun, and say in a line what became of them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

MOST_SECONDS = 900
"""The time after which ranks are ended: a collective that hangs is a finding too."""


class RanksFailedError(Exception):
    """The ranks ended with an error, or not in time; the message is one line."""


def run_ranks(args: list[str], *, ranks: int, on_gpus: bool, log: Path) -> None:
    """Run a module with its arguments on so many ranks; all that they say goes to the log."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    with log.open("wb") as said:
        process = subprocess.Popen(
            [*command, "-m", *args],
            env=_environment(on_gpus=on_gpus),
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            raise RanksFailedError(f"not done after {MOST_SECONDS} s; see {log}") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if code:
        raise RanksFailedError(f"exit code {code}: {_reason(log)}; see {log}")


def _environment(*, on_gpus: bool) -> dict[str, str]:
    environment = dict(os.environ)
    if not on_gpus:
        # one thread each, so that any number of ranks comes to the same
        environment |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return environment


def _reason(log: Path) -> str:
    """Return the first sentence of an error, else the last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "error: " in line.lower() or line.startswith("torch.")]
    return (errors or lines[-1:] or ["no word"])[0]
