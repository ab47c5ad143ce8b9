"""An append, or a conversion of Parquet, that is killed at any moment: the old folder is whole, a repeat does
it."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.support.command_line import ROOT, convert, describe
from tpnet_dist.events import EventLog

ROWS, DAYS, KILLS = 100_000, 3, 10
NAMES = ("--src", "who", "--dst", "whom", "--time", "when", "--features", "w")
FEW = (0, 4, 9)
"""Of the ten moments, those that `make test` takes."""


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A log in Parquet files, one after another."""
    folder, draw = tmp_path_factory.mktemp("raw"), np.random.default_rng(0)
    paths = []
    for day in range(DAYS):
        paths.append(folder / f"day-{day}.parquet")
        pl.DataFrame(
            {
                "who": [f"user-{n}" for n in draw.integers(0, 40_000 * (day + 1), ROWS)],
                "whom": draw.integers(0, 30_000, ROWS).astype(str),
                "when": 1_700_000_000 + day * ROWS + np.arange(ROWS),
                "w": draw.normal(size=ROWS).astype(np.float32),
            }
        ).write_parquet(paths[-1])
    return paths


@pytest.fixture(scope="module")
def first_day(days: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("converted") / "data"
    convert(days[0], folder, *NAMES)
    return folder


def started(*args: object) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "data_prep", *map(str, args)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def killed_at(moment: int, staging: Path, seconds: float, *args: object) -> None:
    """Kill the command in that tenth of the time that it works on the folder beside its output."""
    process = started(*args)
    while not staging.exists() and process.poll() is None:
        time.sleep(0.001)
    time.sleep((moment + random.Random(moment).random()) / KILLS * seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()


def working_seconds(staging: Path, *args: object) -> float:
    """How long the command takes when nobody disturbs it."""
    process = started(*args)
    while not staging.exists():
        assert process.poll() is None
        time.sleep(0.001)
    begun = time.monotonic()
    assert process.wait() == 0
    return time.monotonic() - begun


@pytest.fixture(scope="module")
def append_seconds(first_day: Path, days: list[Path], tmp_path_factory: pytest.TempPathFactory) -> float:
    folder = copy_of(first_day, tmp_path_factory.mktemp("timed"))
    return working_seconds(staging_of(folder), "append", *days[1:], folder)


@pytest.fixture(scope="module")
def convert_seconds(days: list[Path], tmp_path_factory: pytest.TempPathFactory) -> float:
    folder = tmp_path_factory.mktemp("timed") / "data"
    return working_seconds(staging_of(folder), "convert", *days, folder, *NAMES)


def copy_of(folder: Path, parent: Path) -> Path:
    copy = parent / "data"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).hardlink_to(path)
    return copy


def staging_of(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.partial")


def moments() -> list[object]:
    return [pytest.param(n, marks=[] if n in FEW else [pytest.mark.slow]) for n in range(KILLS)]


@pytest.mark.parametrize("moment", moments())
def test_a_killed_append_leaves_the_old_log_or_the_new_one(
    first_day: Path, days: list[Path], append_seconds: float, tmp_path: Path, moment: int
) -> None:
    folder = copy_of(first_day, tmp_path)
    killed_at(moment, staging_of(folder), append_seconds, "append", *days[1:], folder)
    found = describe(folder, "--verify")
    assert found["events"] in (ROWS, DAYS * ROWS)
    assert found["versions"][0]["events"] == ROWS
    assert started("append", *days[1:], folder).wait() == 0
    summary = describe(folder, "--verify")
    assert [version["events"] for version in summary["versions"]] == [ROWS, DAYS * ROWS]
    listed = {record.file for record in EventLog(folder).manifest.files()}
    assert {path.name for path in folder.iterdir()} == {*listed, "manifest.json"}
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("moment", moments())
def test_a_killed_conversion_of_parquet_leaves_the_old_log_or_the_new_one(
    first_day: Path, days: list[Path], convert_seconds: float, tmp_path: Path, moment: int
) -> None:
    folder = copy_of(first_day, tmp_path)
    command = ("convert", *days, folder, *NAMES, "--overwrite")
    killed_at(moment, staging_of(folder), convert_seconds, *command)
    if folder.exists():
        assert describe(folder, "--verify")["events"] in (ROWS, DAYS * ROWS)
    assert started(*command).wait() == 0
    assert describe(folder, "--verify")["events"] == DAYS * ROWS
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
