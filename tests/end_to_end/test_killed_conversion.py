"""A conversion killed at any moment leaves no folder to be taken for a log; repeated, it succeeds."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.command_line import ROOT, convert, describe, refusal, run_data_prep

ROWS = 1_500_000


@pytest.fixture(scope="module")
def big_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("raw") / "log.csv"
    done = run_data_prep("synth", path, "--kind", "random", "--events", ROWS, "--as-csv")
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def whole_seconds(big_csv: Path, tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long the undisturbed conversion takes."""
    started = time.monotonic()
    convert(big_csv, tmp_path_factory.mktemp("timed") / "data")
    return time.monotonic() - started


@pytest.mark.parametrize("moment", range(5))
def test_killed_conversion_is_absent_and_can_be_repeated(
    big_csv: Path, whole_seconds: float, tmp_path: Path, moment: int
) -> None:
    out = tmp_path / "data"
    delay = random.Random(moment).uniform(0.1, 0.95) * whole_seconds
    process = subprocess.Popen(
        [sys.executable, "-m", "data_prep", "convert", big_csv, out],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    if process.wait() == -signal.SIGKILL:
        assert "no such data folder" in refusal("describe", out)
    convert(big_csv, out, "--overwrite")
    assert describe(out, "--verify")["events"] == ROWS
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
