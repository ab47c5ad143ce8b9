"""A conversion killed at any moment leaves no folder to be taken for a log; repeated, it succeeds."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.command_line import ROOT, convert, describe, refusal, run_data_prep

ROWS = 1_500_000


@pytest.fixture(scope="module")
def big_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("raw") / "log.csv"
    done = run_data_prep("synth", path, "--kind", "random", "--events", ROWS, "--as-csv")
    assert done.returncode == 0, done.stderr
    return path


def _heed_interrupts() -> None:
    """What a shell runs in the background ignores them, and so would what the tests start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start_conversion(raw: Path, out: Path) -> "subprocess.Popen[bytes]":
    """Return once the conversion is writing."""
    process = subprocess.Popen(
        [sys.executable, "-m", "data_prep", "convert", raw, out],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=_heed_interrupts,
    )
    while not (out.parent / f".{out.name}.partial").exists():
        assert process.poll() is None
        time.sleep(0.001)
    return process


@pytest.fixture(scope="module")
def writing_seconds(big_csv: Path, tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long an undisturbed conversion writes."""
    process = start_conversion(big_csv, tmp_path_factory.mktemp("timed") / "data")
    started = time.monotonic()
    assert process.wait() == 0
    return time.monotonic() - started


@pytest.mark.parametrize("moment", [0, 2, 4, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3))])
def test_killed_conversion_is_absent_or_complete_and_can_be_repeated(
    big_csv: Path, writing_seconds: float, tmp_path: Path, moment: int
) -> None:
    """Each moment is drawn from another fifth of the writing; a kill after the rename comes too late."""
    out = tmp_path / "data"
    process = start_conversion(big_csv, out)
    time.sleep((moment + random.Random(moment).random()) / 5 * writing_seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if out.exists():
        assert describe(out, "--verify")["events"] == ROWS
    else:
        assert run_data_prep("describe", out).returncode == 2
    convert(big_csv, out, "--overwrite")
    assert describe(out, "--verify")["events"] == ROWS
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_conversion_killed_at_its_start_is_absent(big_csv: Path, tmp_path: Path) -> None:
    process = start_conversion(big_csv, tmp_path / "data")
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    refusal("describe", tmp_path / "data")


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_stopped_conversion_clears_up(big_csv: Path, tmp_path: Path, stop: signal.Signals) -> None:
    process = start_conversion(big_csv, tmp_path / "data")
    process.send_signal(stop)
    assert process.wait() == 128 + stop
    assert list(tmp_path.iterdir()) == []
