"""`tpnet runs`: what it finds in a folder, in which order, as a table and as JSON."""

import fcntl
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.command_line import run_here, sentence_of
from tests.support.report_runs import config_of, metrics_of, results_of, write_run
from tpnet_dist import runs as runs_command
from tpnet_dist.config.schema import MemoryConfig
from tpnet_dist.report.run_list import list_runs, sorted_by


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    wide = replace(config_of(), memory=MemoryConfig(width=99))
    (tmp_path / "runs" / "tuned").mkdir(parents=True)
    write_run(tmp_path / "runs" / "a", results=results_of(0.9), metrics=metrics_of())
    write_run(tmp_path / "runs" / "tuned" / "b", wide, results_of(0.95), metrics_of())
    write_run(tmp_path / "runs" / "c", metrics=metrics_of(epochs=2))
    return tmp_path / "runs"


def test_rows_say_how_far_runs_are_and_where_they_differ(folder: Path) -> None:
    rows = {row.run: row for row in list_runs(folder)}
    assert list(rows) == ["a", "c", "tuned/b"]
    assert rows["a"].settings == {"memory.width": None}
    assert rows["tuned/b"].settings == {"memory.width": 99}
    assert {row.dataset for row in rows.values()} == {"uci"}
    assert rows["a"].state == "finished"
    assert rows["a"].test_ap == pytest.approx(0.9)
    assert rows["c"].state == "stopped, epoch 2, step 8"
    assert rows["c"].test_ap is None
    assert rows["c"].val_ap == pytest.approx(0.92)
    assert rows["c"].seconds == 12


def test_figures_are_sorted_best_first_and_runs_without_come_last(folder: Path) -> None:
    rows = list_runs(folder)
    assert [row.run for row in sorted_by(rows, "test_ap")] == ["tuned/b", "a", "c"]
    assert [row.run for row in sorted_by(rows, "state")][-1] == "c"
    assert next(row.run for row in sorted_by(rows, "seconds")) == "c"


def test_a_run_whose_folder_is_locked_is_running(folder: Path) -> None:
    with (folder / ".c.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        [state] = [row.state for row in list_runs(folder) if row.run == "c"]
    assert state == "running, epoch 2, step 8"


def test_the_table_and_its_json_hold_the_same(folder: Path) -> None:
    table = run_here(runs_command.main, folder, "--sort", "test_ap").stdout
    heading, first, *_ = table.splitlines()
    assert "memory.width" in heading and "test AP" in heading
    assert first.startswith("tuned/b") and "0.9500" in first
    rows = json.loads(run_here(runs_command.main, folder, "--sort", "test_ap", "--json").stdout)
    assert [row["run"] for row in rows] == ["tuned/b", "a", "c"]


def test_what_cannot_be_listed_is_refused(tmp_path: Path) -> None:
    for args in ([tmp_path], [tmp_path / "none"], [tmp_path, "--sort", "ap"]):
        sentence_of(run_here(runs_command.main, *args), runs_command.PROGRAM)
