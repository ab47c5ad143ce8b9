"""Kept figures: the line as it was, whole, under a name; and what is kept tells of its machine."""

import io
import json
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from benchmarks import keep
from benchmarks.results_line import print_results_line
from tests.support.command_line import ROOT, run_here, sentence_of

KEPT = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


def run_keep(text: str, *args: object):
    with patch.object(sys, "stdin", io.StringIO(text)):
        return run_here(keep.main, *args)


def test_a_line_is_shown_and_kept_with_its_date_and_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_results_line("neighbors", {"events": 5})
    text = f"a table\n{capsys.readouterr().out}"
    done = run_keep(text, "neighbors_small", "--folder", tmp_path)
    assert (done.returncode, done.stdout) == (0, text)
    kept = json.loads((tmp_path / "neighbors_small.json").read_text())
    assert kept == json.loads(text.splitlines()[-1])
    assert (kept["benchmark"], kept["results"]) == ("neighbors", {"events": 5})
    assert set(kept["machine"]) == {"cpu", "cores", "memory_bytes", "gpus", "system"}
    assert run_keep(text, "--folder", tmp_path).returncode == 0
    assert (tmp_path / "neighbors.json").exists()


def test_a_benchmark_that_failed_leaves_nothing(tmp_path: Path) -> None:
    for text in ("a table\n", '{"benchmark": "x", "results": {}}'):
        sentence_of(run_keep(text, "--folder", tmp_path), keep.PROGRAM)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_kept_figures_tell_where_and_when_they_come_from(path: Path) -> None:
    kept = json.loads(path.read_text())
    assert set(keep.KEYS) <= set(kept)
    assert path.stem.startswith(kept["benchmark"])
