"""`tpnet tune`: each cell trained once, whatever happens in between; one table, one report."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.command_line import ROOT, run_here, sentence_of
from tests.support.training_runs import flags_of, small_config, small_log
from tpnet_dist import runs as runs_command
from tpnet_dist import tune as tune_command
from tpnet_dist.config.tune_args import GRIDS, parse_tune

SECONDS = 280
GRID = ("--grid", "memory.decay=1e-7,1e-6", "model.neighbors=3,5")
THREE_CELLS = ("--grid", "model.neighbors=3,4,5")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("tune") / "log", events=600)


def started(folder: Path, where: Path, *grid: str) -> subprocess.Popen[str]:
    flags = [*flags_of(small_config(folder)), "--epochs", "1"]
    return subprocess.Popen(
        [sys.executable, "-m", "tpnet_dist", "tune", str(folder), *flags, *grid, "--run-dir", str(where)],
        cwd=folder.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_grid_that_was_killed_goes_on_with_the_next_cell(folder: Path, tmp_path: Path) -> None:
    where = tmp_path / "tuned"
    killed = started(folder, where, *THREE_CELLS)
    deadline = time.monotonic() + SECONDS
    while len(list(where.glob("*/config.toml"))) < 2:
        assert time.monotonic() < deadline and killed.poll() is None
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    [done] = where.glob("*/results.json")
    when = done.stat().st_mtime_ns
    # the training under way is told, saves, and lets go of its folder
    while list(where.glob(".*.lock")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    again = started(folder, where, *THREE_CELLS)
    out, err = again.communicate(timeout=SECONDS)
    assert again.returncode == 0, err
    assert err.count("finished before") == 1
    assert done.stat().st_mtime_ns == when
    assert len(list(where.glob("*/results.json"))) == 3
    heads, *rows = out.splitlines()
    assert "model.neighbors" in heads and "val AP" in heads
    assert len(rows) == 3
    figures = [row["val_ap"] for row in json.loads(run_here(runs_command.main, where, "--json").stdout)]
    assert err.splitlines()[-1].startswith("tpnet tune: best by validation: ")
    assert f"{max(figures):.4f}" in rows[0]
    assert "</html>" in (where / "report.html").read_text()


def test_cells_are_all_combinations_each_with_a_folder_of_its_own(folder: Path) -> None:
    tuning = parse_tune([str(folder), *GRID, "--epochs=3", "--training.seed", "7"])
    assert [dict(cell.values) for cell in tuning.cells] == [
        {"memory.decay": decay, "model.neighbors": count}
        for decay in ("1e-7", "1e-6")
        for count in ("3", "5")
    ]
    assert tuning.cells[0].name == "memory.decay=1e-7,model.neighbors=3"
    assert tuning.folder == Path("runs/tune-log")
    assert (tuning.settings.config.training.epochs, tuning.settings.config.training.seed) == (3, 7)
    for mark in ";,":
        joined = parse_tune([str(folder), f"--grid=memory.decay=1e-7,1e-6{mark}model.neighbors=3,5"])
        assert [cell.name for cell in joined.cells] == [cell.name for cell in tuning.cells]


@pytest.mark.parametrize("name", GRIDS)
def test_grids_have_names(folder: Path, name: str) -> None:
    decays = [cell.values["memory.decay"] for cell in parse_tune(["--grid", name, str(folder)]).cells]
    assert decays == ["1e-4", "1e-5", "1e-6", "1e-7"]


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--grid",),
        ("--grid", "decay"),
        ("--grid", "memory.decy=1e-7"),
        ("--grid", "memory.decay="),
        ("--grid", "memory.decay=1e-7,1e-7"),
        ("--grid", "memory.decay=1e-7;memory.decay=1e-6"),
        ("--grid", "memory.decay=1e-7,fast"),
        ("--grid", "training.seed=" + ",".join(map(str, range(1001)))),
        (*GRID, "--check"),
        (*GRID, "--epochs", "0"),
        (*GRID, "--no-such-flag", "1"),
    ],
)
def test_what_cannot_be_tuned_is_refused_before_anything_is_trained(
    folder: Path, tmp_path: Path, args: tuple[str, ...]
) -> None:
    done = run_here(tune_command.main, folder, "--run-dir", tmp_path / "tuned", *args)
    sentence_of(done, "python -m tpnet_dist.tune")
    assert not (tmp_path / "tuned").exists()
