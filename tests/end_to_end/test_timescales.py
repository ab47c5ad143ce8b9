"""Runs of several timescales, given or from the log: trained, gone on with, evaluated, asked, planned."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.end_to_end.test_training import refusal, train, train_here
from tests.support.command_line import run_here
from tests.support.training_runs import small_log
from tpnet_dist import Predictor, evaluate_command
from tpnet_dist import plan as plan_command
from tpnet_dist import train as train_command
from tpnet_dist.config.toml_files import read_config
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.split import split_log
from tpnet_dist.events.timescales import timescales_of
from tpnet_dist.report import __main__ as report_command

AUTO = ("--memory.decay", "auto")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("timescales") / "log")


@pytest.fixture(scope="module")
def whole(folder: Path) -> tuple[Path, dict[str, Any]]:
    """On two ranks."""
    run = folder.parent / "whole"
    return run, train(folder, run, *AUTO, ranks=2)


def test_a_run_keeps_the_timescales_it_took_from_the_log(
    whole: tuple[Path, dict[str, Any]], folder: Path
) -> None:
    run, results = whole
    rates = timescales_of(split_log(EventLog(folder)).train)
    assert read_config(run / "config.toml").memory.decay == rates
    assert results["run"]["settings"]["memory.decay"] == list(rates)


def test_a_run_goes_on_with_its_own_timescales_on_another_number_of_ranks(
    whole: tuple[Path, dict[str, Any]], folder: Path, tmp_path: Path
) -> None:
    train_here(folder, tmp_path / "run", *AUTO, "--training.epochs", 1)
    (tmp_path / "run" / "results.json").unlink()
    assert train_here(folder, tmp_path / "run", *AUTO)["test"] == whole[1]["test"]
    # whatever a later version would take
    train_here(folder, tmp_path / "other", "--memory.decay", "1e-6,1e-4", "--training.epochs", 1)
    (tmp_path / "other" / "results.json").unlink()
    train_here(folder, tmp_path / "other", *AUTO)
    assert read_config(tmp_path / "other" / "config.toml").memory.decay == (1e-6, 1e-4)


def test_it_is_evaluated_asked_planned_and_shown(
    whole: tuple[Path, dict[str, Any]], folder: Path, tmp_path: Path
) -> None:
    run, results = whole
    done = run_here(evaluate_command.main, run, "--json")
    assert json.loads(done.stdout)["test"] == results["test"]
    predictor = Predictor.load(run)
    assert np.isfinite(predictor.score([0, 1], [2, 3], predictor.now)).all()
    for log in (("--data", folder), ("--events", 1e6)):
        one, two = (
            json.loads(run_here(plan_command.main, *log, *decay, "--json").stdout)
            for decay in (("--memory.decay", 1e-6), AUTO)
        )
        assert two["bytes_per_rank"]["rows"] == pytest.approx(7 / 4 * one["bytes_per_rank"]["rows"], rel=1e-3)
    done = run_here(report_command.main, run, "--out", tmp_path / "report.html")
    assert done.returncode == 0, done.stderr


def test_check_says_what_timescales_mean_and_warns_of_strange_ones(folder: Path) -> None:
    done = run_here(train_command.main, folder, "--check", *AUTO)
    slow, fast = timescales_of(split_log(EventLog(folder)).train)
    said = " ".join(done.stdout.split())
    assert f"{slow:g},{fast:g} per second: half-life" in said and "decay times span" in said
    assert "the paper's datasets" not in said
    strange = run_here(train_command.main, folder, "--check", "--memory.decay", 1).stdout
    assert "the paper's datasets" in " ".join(strange.split())


def test_weights_of_another_number_of_timescales_are_refused(
    whole: tuple[Path, dict[str, Any]], folder: Path, tmp_path: Path
) -> None:
    weights = ("--model.weights", whole[0] / "checkpoints" / "seed-0" / "best.pt")
    small = ("--memory.width", 16, "--model.neighbors", 4, "--model.time-width", 8, "--model.channels", 16)
    small += ("--model.mixer-layers", 1)
    refusal(train_command, folder, "--run-dir", tmp_path / "run", *small, *weights)
    done = run_here(train_command.main, folder, "--check", *small, *weights, *AUTO)
    assert done.returncode == 0, done.stderr
