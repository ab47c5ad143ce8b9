"""Run a command in a process of its own and measure what it took: nothing of the parent counts."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import StopWatch


@dataclass(frozen=True)
class Measured:
    """One run of a command."""

    seconds: float
    peak_bytes: int
    """The largest resident set the process had."""
    output: str


def run_python(*args: object, environment: Mapping[str, str] | None = None) -> Measured:
    """Run `python ARGS…`, a module or code, which must succeed; `environment`: variables added to ours."""
    with tempfile.TemporaryDirectory(prefix="measured-") as name:
        peak, output = Path(name, "peak"), Path(name, "output")
        command = [sys.executable, "-m", "benchmarks.own_peak", str(peak), *map(str, args)]
        with output.open("w") as file:
            watch = StopWatch()
            subprocess.run(command, stdout=file, env={**os.environ, **(environment or {})}, check=True)
            seconds = watch.lap()
        return Measured(seconds, int(peak.read_text()), output.read_text())
