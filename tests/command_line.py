"""Run the project's commands as a user does: another process, real files."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def run_data_prep(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "data_prep", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, **options)


def convert(*words: object) -> None:
    done = run_data_prep("convert", *words)
    assert done.returncode == 0, done.stderr


def describe(folder: Path, *flags: str) -> dict[str, Any]:
    done = run_data_prep("describe", folder, "--json", *flags)
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def refusal(*words: object, **options: Any) -> str:
    """The one sentence a bad input gets; checks all that holds for every refusal."""
    done = run_data_prep(*words, **options)
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("python -m data_prep: error: ")
    return lines[0].removeprefix("python -m data_prep: error: ")
