"""Run a command in a process of its own and measure what it took: nothing of the parent counts."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.measuring import KIB, StopWatch


@dataclass(frozen=True)
class Measured:
    """One run of a command."""

    seconds: float
    peak_bytes: int
    """The largest resident set the process had."""
    output: str


def run_python(*words: object, environment: Mapping[str, str] | None = None) -> Measured:
    """`python WORDS…`, which must succeed; `environment`: variables added to ours."""
    command = [sys.executable, *map(str, words)]
    with tempfile.TemporaryFile("w+") as output:
        watch = StopWatch()
        process = subprocess.Popen(command, stdout=output, env={**os.environ, **(environment or {})})
        _, status, usage = os.wait4(process.pid, 0)
        seconds = watch.lap()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        output.seek(0)
        return Measured(seconds, usage.ru_maxrss * KIB, output.read())
