"""Run the project's commands as a user does, with real files.

Most run in the process of the tests: another takes seconds to start, and says the same. What is about
signals, pipes or the end of a process runs in one of its own.
"""

import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from data_prep.__main__ import PROGRAM, main
from tests.support.sentences import has_remedy, same_sentence

ROOT = Path(__file__).resolve().parents[2]
_PROGRESS = re.compile(r"[^;:]+: \d+%, ")
"""What a slow machine shows meanwhile."""

Done = subprocess.CompletedProcess[str]


def run_here(command: Callable[[], None], *args: object) -> Done:
    """A command's `main` as if these were its arguments."""
    argv = ["command", *map(str, args)]
    out, err, interrupt, code = io.StringIO(), io.StringIO(), signal.getsignal(signal.SIGINT), 0
    try:
        with (
            patch.object(sys, "argv", argv),
            # not this process
            patch("tpnet_dist.errors.leave", sys.exit),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            command()
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    finally:
        # a command that fails is about to end, and keeps its own handler
        signal.signal(signal.SIGINT, interrupt)
    return subprocess.CompletedProcess(argv, code, out.getvalue(), err.getvalue())


def run_data_prep(*args: object, **options: Any) -> Done:
    """In a process of its own."""
    command = [sys.executable, "-m", "data_prep", *map(str, args)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, **options)


def convert(*args: object) -> None:
    done = run_here(main, "convert", *args)
    assert done.returncode == 0, done.stderr


def describe(folder: Path, *flags: str) -> dict[str, Any]:
    done = run_here(main, "describe", folder, "--json", *flags)
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def refusal(*args: object, **options: Any) -> str:
    """The one sentence a bad input gets; with `options`, of a process of its own."""
    done = run_data_prep(*args, **options) if options else run_here(main, *args)
    return sentence_of(done, PROGRAM)


def sentence_of(done: Done, program: str, *, varies: str = "") -> str:
    """Checks all that holds for every refusal, and the sentence against the one that is kept."""
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip() and not _PROGRESS.match(line)]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith(f"{program}: error: ")
    return has_remedy(same_sentence(lines[0].removeprefix(f"{program}: error: "), varies=varies))
