"""`tpnet_dist.train` and `tpnet_dist.evaluate` as users run them: torchrun, real folders, real files."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.command_line import ROOT, Done, run_here, sentence_of
from tests.support.event_logs import write_log
from tests.support.launched_ranks import run_launched
from tests.support.training_runs import flags_of, flags_of_any_model, small_config, small_log
from tpnet_dist import Predictor, evaluate_command
from tpnet_dist import plan as plan_command
from tpnet_dist import train as train_command
from tpnet_dist.events.reader import EventLog
from tpnet_dist.models.registry import spec_of

SECONDS = 240
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
KINDS = ("random", "historical", "inductive")
FINISHED = (
    *("--training.learning-rate", 1e-3, "--evaluation.negatives", *KINDS),
    *("--evaluation.mrr-negatives", 5, "--evaluation.baseline", "all"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("training") / "log")


def by_torchrun(module: str, *args: object, ranks: int = 2) -> Done:
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    command = [sys.executable, *launcher, "-m", module, *map(str, args)]
    environment = {**os.environ, **ONE_THREAD}
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False
    )


def train(
    folder: Path, run: Path, *args: object, ranks: int = 1, start: Callable[..., Done] = run_launched
) -> dict[str, Any]:
    """In processes of their own."""
    flags = flags_of(small_config(folder))
    done = start("tpnet_dist.train", folder, "--run-dir", run, *flags, *args, ranks=ranks)
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads((run / "results.json").read_text())
    return results


def train_here(folder: Path, run: Path, *args: object) -> dict[str, Any]:
    """In this process: another takes seconds to start."""
    flags = flags_of(small_config(folder))
    done = run_here(train_command.main, folder, "--run-dir", run, *flags, *args)
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads((run / "results.json").read_text())
    return results


def refusal(command: ModuleType, *args: object) -> str:
    program = f"python -m {command.__name__.removesuffix('_command')}"
    return sentence_of(run_here(command.main, *args), program)


def lines_of(run: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


@pytest.fixture(scope="module")
def finished(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    run = tmp_path_factory.mktemp("finished") / "run"
    return run, train(folder, run, *FINISHED, ranks=2, start=by_torchrun)


def test_a_run_on_two_ranks_leaves_all_its_files(finished: tuple[Path, dict[str, Any]], folder: Path) -> None:
    run, results = finished
    assert (results["ranks"], results["epochs_run"]) == (2, 2)
    assert results["best_epoch"] in (1, 2)
    assert (results["batching"], results["protocol"]) == ("events", "dyglib")
    by_rank = results["peak_memory_bytes_by_rank"]
    assert len(by_rank) == results["ranks"]
    assert results["peak_memory_bytes"] == max(by_rank) > min(by_rank) // 2 > 0
    assert set(results["events_per_second"]) == {"train", "score"}
    for part in ("val", "test"):
        for setting in ("transductive", "inductive"):
            assert set(results[part][setting]) == set(KINDS)
            for kind in KINDS:
                metrics = results[part][setting][kind]
                assert {"ap", "auc", "ap_whole", "auc_whole"} <= set(metrics)
                assert all(0 <= value <= 1 for value in metrics.values())
            assert {"mrr", "hits@10"} <= set(results[part][setting]["random"])
    assert results["baselines"]["edgebank_unlimited"]["test"]["transductive"]["random"]["ap"] > 0.5
    info, manifest = results["run"], json.loads((folder / "manifest.json").read_text())
    assert info["started"] < info["finished"]
    assert (info["data"]["log_id"], info["data"]["nodes"]) == (manifest["log_id"], manifest["nodes"])
    assert sum(info["data"]["events"].values()) <= manifest["events"]
    assert info["settings"]["training.epochs"] == 2
    exchanges = [line["exchange"] for line in lines_of(run, "eval")]
    for name, value in results["exchange"].items():
        assert value == pytest.approx(sum(each[name] for each in exchanges) / 2)
    assert {path.name for path in run.iterdir()} == {
        *("config.toml", "metrics.jsonl", "results.json", "report.html", "tensorboard", "checkpoints")
    }
    assert [line["epoch"] for line in lines_of(run, "eval")] == [1, 2]
    steps = lines_of(run, "step")
    assert [line["step"] for line in steps] == list(range(1, len(steps) + 1))
    assert all(line["loss"] > 0 for line in steps)
    assert all(line["exchange"]["bytes_per_event"] > 0 for line in lines_of(run, "eval"))


def test_training_learns(finished: tuple[Path, dict[str, Any]]) -> None:
    run, results = finished
    steps = lines_of(run, "step")
    assert sum(line["loss"] for line in steps[-4:]) < sum(line["loss"] for line in steps[:4])
    assert results["test"]["transductive"]["random"]["ap"] > 0.6


@pytest.mark.parametrize(
    "settings",
    [("graphmixer",), ("dygformer", "--model.sequence-length", 8, "--model.patch-size", 2)],
    ids=str,
)
def test_other_models_are_trained_stopped_gone_on_with_evaluated_and_asked(
    folder: Path, tmp_path: Path, settings: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ("--model.name", *settings, "--training.learning-rate", 1e-3)
    if settings[0] == "dygformer":
        monkeypatch.setattr("tests.end_to_end.test_training.flags_of", flags_of_any_model)
    whole = train(folder, tmp_path / "whole", *model, ranks=2)
    assert whole["test"]["transductive"]["random"]["ap"] > 0.5
    # on another number of ranks, and in two parts
    train_here(folder, tmp_path / "run", *model, "--training.epochs", 1)
    (tmp_path / "run" / "results.json").unlink()
    resumed = train_here(folder, tmp_path / "run", *model)
    assert resumed["test"] == whole["test"]
    done = run_here(evaluate_command.main, tmp_path / "run", "--json")
    assert json.loads(done.stdout)["test"] == whole["test"]
    predictor = Predictor.load(tmp_path / "run")
    assert np.isfinite(predictor.score([0, 1], [2, 3], predictor.now)).all()
    planned = run_here(plan_command.main, "--data", folder, "--ranks", 2, *model, "--json")
    assert planned.returncode == 0, planned.stderr


def test_evaluating_a_run_again_gives_its_results(finished: tuple[Path, dict[str, Any]]) -> None:
    run, results = finished
    done = run_launched("tpnet_dist.evaluate", run, "--json", ranks=2)
    assert done.returncode == 0, done.stderr
    again = json.loads(done.stdout)
    assert again["test"] == results["test"]
    assert again["val"] == results["val"]
    assert again["baselines"] == results["baselines"]


def test_a_finished_run_is_shown_not_repeated(finished: tuple[Path, dict[str, Any]], folder: Path) -> None:
    run, _ = finished
    before = (run / "results.json").read_bytes()
    train_here(folder, run, *FINISHED)
    assert (run / "results.json").read_bytes() == before


def test_other_settings_in_the_folder_of_a_run_are_refused(
    finished: tuple[Path, dict[str, Any]], folder: Path
) -> None:
    run, _ = finished
    refusal(train_command, folder, "--run-dir", run)


def test_several_seeds_give_mean_and_deviation(folder: Path, tmp_path: Path) -> None:
    args = ("--training.seeds=[0,3]", "--training.epochs", 1)
    results = train_here(folder, tmp_path / "run", *args)
    of_seeds = [results["seeds"][seed]["test"]["transductive"]["random"]["ap"] for seed in ("0", "3")]
    assert of_seeds[0] != of_seeds[1]
    assert results["test"]["transductive"]["random"]["ap"] == pytest.approx(sum(of_seeds) / 2)
    deviation = results["standard_deviation"]["test"]["transductive"]["random"]["ap"]
    assert deviation == pytest.approx(abs(of_seeds[0] - of_seeds[1]) / 2**0.5)


def test_a_frozen_memory_changes_the_figures(folder: Path, tmp_path: Path) -> None:
    args = ("--training.max-steps", 5)
    moving = train_here(folder, tmp_path / "a", *args)
    frozen = train_here(folder, tmp_path / "b", *args, "--evaluation.update", "False")
    assert (moving["update"], frozen["update"]) == (True, False)
    assert moving["epochs_run"] == frozen["epochs_run"] == 1
    ap_of = [run["test"]["transductive"]["random"]["ap"] for run in (moving, frozen)]
    assert ap_of[0] != ap_of[1]


def test_an_evaluation_says_whether_the_memory_stood_still(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_here(folder, run, "--training.max-steps", 5, "--evaluation.update", "False")
    done = run_here(evaluate_command.main, run, "--save")
    assert done.returncode == 0, done.stderr
    assert "memory still after" in " ".join(done.stdout.split())
    assert json.loads((run / "evaluation.json").read_text())["update"] is False
    moving = run_here(evaluate_command.main, run, "--update", "True", "--json")
    assert json.loads(moving.stdout)["update"] is True


def test_check_says_what_a_run_takes_and_makes_nothing(folder: Path, tmp_path: Path) -> None:
    done = run_here(train_command.main, folder, "--check", "--run-dir", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "rows, per rank" in done.stdout
    assert "borrowed rows, per rank" in done.stdout and "rows exchanged, per rank and batch" in done.stdout
    assert "1,200 events" in done.stdout
    assert re.search(r"weights and optimizer +\d+\.\d\d MB", done.stdout), done.stdout
    assert not (tmp_path / "run").exists()


def test_a_run_without_new_nodes_says_at_its_start_that_it_has_no_inductive_figures(
    folder: Path, tmp_path: Path
) -> None:
    src = np.arange(100) % 4
    few = write_log(tmp_path / "few", src, 4 + src, np.arange(100)).folder
    args = ("--training.max-steps", 1, "--data.new-node-share", 0, *flags_of(small_config(few)))
    done = run_here(train_command.main, few, "--run-dir", tmp_path / "few-run", *args)
    assert done.returncode == 0, done.stderr
    remark = "No test event has a node unseen in training: there will be no inductive figures."
    assert remark in done.stderr.splitlines()
    usual = run_here(train_command.main, folder, "--run-dir", tmp_path / "run", *args)
    assert "no inductive figures" not in usual.stderr


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_four_ranks_train_without_any_argument(tmp_path: Path) -> None:
    """As somebody does who has just installed it: an empty folder, an empty cache."""
    here, cache = tmp_path / "here", tmp_path / "cache"
    here.mkdir()
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=4", "-m", "tpnet_dist.train"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(
        command, cwd=here, env=environment, capture_output=True, text=True, timeout=1700, check=False
    )
    assert done.returncode == 0, done.stderr
    # nothing but the run, whose lock stays beside it
    assert [path.name for path in here.iterdir()] == ["runs"]
    [run] = [path for path in (here / "runs").iterdir() if path.is_dir()]
    assert run.name.startswith("social-10000-")
    results = json.loads((run / "results.json").read_text())
    assert results["ranks"] == 4
    assert results["test"]["transductive"]["random"]["ap"] > 0.6
    assert (cache / "tpnet_dist" / "social-10000" / "manifest.json").is_file()


def test_without_any_argument_a_built_in_log_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for _ in range(2):
        done = run_here(train_command.main, "--check")
        assert done.returncode == 0, done.stderr
        assert "social-10000" in done.stdout


def test_a_loss_that_is_no_number_stops_the_run(folder: Path, tmp_path: Path) -> None:
    flags = flags_of(small_config(folder))
    args = ("--run-dir", tmp_path / "run", *flags, "--training.learning-rate", "1e30")
    sentence = refusal_after_training(folder, *args)
    assert "epoch 1, step" in sentence
    assert "batch" in sentence
    assert sentence.endswith("start again in another --run-dir with a lower training.learning_rate")
    assert not (tmp_path / "run" / "results.json").exists()
    # what led to it can be looked at
    assert all(line["loss"] > 0 for line in lines_of(tmp_path / "run", "step"))
    assert lines_of(tmp_path / "run", "step")


def test_weights_that_are_no_numbers_are_not_kept(folder: Path, tmp_path: Path) -> None:
    """Those of the time encoding can be so large that a step leads beyond float32: cosines are finite."""
    config = small_config(folder)
    weights = spec_of(config).make(config, EventLog(folder).shape).state_dict()
    weights["time_encoding.phase"].fill_(torch.finfo(torch.float32).max)
    torch.save({"model": weights}, tmp_path / "huge.pt")
    args = (*flags_of(config), "--model.weights", tmp_path / "huge.pt")
    args = (*args, "--training.learning-rate", "1e37", "--training.max-steps", 1)
    done = run_here(train_command.main, folder, "--run-dir", tmp_path / "run", *args)
    assert done.returncode == 2
    assert "weights are not finite after epoch 1, step 1" in done.stderr
    assert not list((tmp_path / "run").glob("checkpoints/**/*"))


def refusal_after_training(*args: object) -> str:
    done = run_here(train_command.main, *args)
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "args",
    [
        ("--memory.decay", -1),
        ("--memory.width", 10**9),
        ("--model.channels", 60_000),
        ("--memory.width", 10**7),
        ("--training.batch-size", 10**7),
        ("--model.weights", "nowhere.pt"),
        ("--preset", "nowhere"),
        ("--training.batchsize", 3),
        ("--data.val-share", 0.0001),
    ],
)
def test_bad_settings_get_one_sentence(folder: Path, args: tuple[object, ...]) -> None:
    refusal(train_command, folder, *args)


def test_bad_folders_get_one_sentence(tmp_path: Path) -> None:
    refusal(train_command, tmp_path)
    refusal(evaluate_command, tmp_path)
    few = small_log(tmp_path / "few", events=3)
    refusal(train_command, few)


def test_another_log_than_that_of_the_run_is_refused(
    finished: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    run, _ = finished
    other = small_log(tmp_path / "other", events=700)
    refusal(evaluate_command, run, "--data", other)
    # training and evaluation say it alike, and only one of them has a --run-dir
