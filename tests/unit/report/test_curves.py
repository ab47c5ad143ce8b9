"""Curves of `metrics.jsonl`: whatever a run has written so far, and where its time went."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.report_runs import metrics_of
from tpnet_dist.files.stored_json import sealed_line
from tpnet_dist.report.curves import Curves, EpochTime, read_curves


def curves_of(path: Path, lines: list[dict[str, Any]], ending: str = "") -> Curves:
    path.write_text("".join(f"{sealed_line(line)}\n" for line in lines) + ending)
    return read_curves(path)


def test_losses_are_found_by_step_and_figures_by_epoch(tmp_path: Path) -> None:
    curves = curves_of(tmp_path / "metrics.jsonl", metrics_of(seed=7))
    [(seed, curve)] = curves.by_seed.items()
    assert (seed, curves.last_step, curves.last_epoch, curves.damaged_lines) == (7, 12, 3, 0)
    assert curve.losses == {step: 1 / step for step in range(1, 13)}
    assert curve.last_steps == {1: 4, 2: 8, 3: 12}
    assert curve.figure(2, "val", "inductive", "auc") == pytest.approx(0.82)
    assert curve.figure(2, "test", "inductive", "auc") is None


def test_the_time_of_an_epoch_is_that_of_its_steps_and_that_of_its_evaluation(tmp_path: Path) -> None:
    curves = curves_of(tmp_path / "metrics.jsonl", metrics_of())
    assert curves.by_seed[0].times == {epoch: EpochTime(4.0, 2.0) for epoch in (1, 2, 3)}


def test_time_before_a_restart_and_after_it_adds_up(tmp_path: Path) -> None:
    before, after = metrics_of(epochs=1), metrics_of(epochs=2)[5:]
    # another process counts from its own start
    after = [{**line, "seconds": line["seconds"] - 6} for line in after]
    curves = curves_of(tmp_path / "metrics.jsonl", before + after)
    assert curves.by_seed[0].times == {1: EpochTime(4.0, 2.0), 2: EpochTime(4.0, 2.0)}


def test_what_lies_between_two_seeds_is_nobodys_time(tmp_path: Path) -> None:
    later = [{**line, "seconds": line["seconds"] + 1000} for line in metrics_of(seed=1)]
    curves = curves_of(tmp_path / "metrics.jsonl", metrics_of(seed=0) + later)
    assert curves.by_seed[1].times[1] == EpochTime(3.0, 2.0)


def test_half_a_line_is_a_run_at_work_and_a_broken_one_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert curves_of(path, metrics_of(), ending='{"kind": "st').damaged_lines == 0
    for broken in ("{]\n", "7\n", '{"kind": "step"}\n', '{"kind": "other", "step": 1}\n'):
        curves = curves_of(path, metrics_of(), ending=broken)
        assert (curves.damaged_lines, curves.last_step) == (1, 12)


def test_figures_that_are_no_numbers_have_no_place_in_a_curve(tmp_path: Path) -> None:
    lines = metrics_of()
    lines[0]["loss"] = float("nan")
    lines[4]["val"] = {"transductive": {"random": {"ap": float("inf")}}}
    curve = curves_of(tmp_path / "metrics.jsonl", lines).by_seed[0]
    assert 1 not in curve.losses
    assert curve.figure(1, "val", "transductive", "ap") is None


def test_a_run_that_has_written_nothing_has_no_curves(tmp_path: Path) -> None:
    assert read_curves(tmp_path / "metrics.jsonl") == Curves()
    assert curves_of(tmp_path / "metrics.jsonl", []) == Curves()
