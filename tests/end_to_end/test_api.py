"""`tpnet_dist.fit` trains as the command does, as often as it is called, alone and under torchrun."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

import tpnet_dist
from tests.support.command_line import ROOT, run_here
from tests.support.deepspeed_here import needs_deepspeed
from tests.support.sentences import refused
from tests.support.training_runs import flags_of, small_config, small_log
from tpnet_dist import train as train_command
from tpnet_dist.training.run_log import RunLog

SMALL: dict[str, Any] = {
    "memory__width": 16,
    "model__neighbors": 4,
    "model__time_width": 8,
    "model__channels": 16,
    "model__mixer_layers": 1,
    "training__batch_size": 25,
    "training__epochs": 2,
    "training__learning_rate": 1e-4,
    "evaluation__batch_size": 50,
}
MEASURED = (
    *("events_per_second", "peak_memory_bytes", "peak_memory_bytes_by_rank", "ranks"),
    *("run", "seeds", "exchange"),
)
"""Results that two runs of the same settings do not have in common."""
SCRIPT = """
import json, sys
import tpnet_dist

data, folder, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
run = tpnet_dist.fit(data, run_dir=f"{folder}/run", fresh=True, **settings)
short = tpnet_dist.fit(data, run_dir=f"{folder}/short", fresh=True, training__max_steps=1, **settings)
assert short.curves["step"].max() == 1
assert run.evaluate()["test"] == run.results["test"]
assert tpnet_dist.fit(data, run_dir=f"{folder}/run", **settings).results == run.results
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("api") / "log", events=600)


@pytest.fixture(scope="module")
def run(log: Path) -> tpnet_dist.Run:
    return tpnet_dist.fit(log, run_dir=log.parent / "run", **SMALL)


def compared(run: tpnet_dist.Run) -> dict[str, Any]:
    assert run.results is not None
    return {name: value for name, value in run.results.items() if name not in MEASURED}


def process_state() -> tuple[object, ...]:
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
    return dict(os.environ), handlers, sys.excepthook, dist.is_initialized(), threading.active_count()


def test_a_run_comes_to_what_the_command_comes_to(run: tpnet_dist.Run, log: Path) -> None:
    config = small_config(log, training={"batch_size": 25})
    folder = log.parent / "by-command"
    done = run_here(train_command.main, log, "--run-dir", folder, *flags_of(config))
    assert done.returncode == 0, done.stderr
    by_command = tpnet_dist.open_run(folder)
    assert compared(run) == compared(by_command)
    assert run.config == by_command.config == config
    assert run.curves["loss"].to_list() == by_command.curves["loss"].to_list()


def test_curves_have_a_row_for_each_step_and_each_epoch(run: tpnet_dist.Run) -> None:
    curves, results = run.curves, run.results
    assert results is not None
    steps, epochs = (curves.filter(kind=kind) for kind in ("step", "eval"))
    assert steps["step"].to_list() == list(range(1, steps.height + 1))
    assert epochs["epoch"].to_list() == [1, 2] == steps["epoch"].unique().sort().to_list()
    first = steps.filter(epoch=1)["loss"].mean()
    assert epochs["loss"][0] == pytest.approx(first)
    ap = epochs["val/transductive/random/ap"]
    assert ap.max() == results["val"]["transductive"]["random"]["ap"]
    assert ap.arg_max() == results["best_epoch"] - 1


def test_a_run_makes_a_predictor(run: tpnet_dist.Run) -> None:
    assert run.predictor().num_events == 600
    predictor = run.predictor(until=500)
    assert predictor.num_events == 500
    assert predictor.score([1, 2], [3, 4], predictor.now).shape == (2,)


def test_an_evaluation_changes_what_it_is_told_and_saves_only_if_told(run: tpnet_dist.Run) -> None:
    results = run.results
    assert results is not None
    ranked = run.evaluate(negatives=["random", "historical"], mrr_negatives=5, baseline="edgebank")
    metrics = ranked["test"]["transductive"]
    assert set(metrics) == {"random", "historical"}
    assert {"mrr", "hits@10"} <= set(metrics["random"])
    for name, value in results["test"]["transductive"]["random"].items():
        assert metrics["random"][name] == value
    assert ranked["baselines"]["edgebank_unlimited"]
    assert not (run.path / "evaluation.json").exists()
    again = tpnet_dist.evaluate(run.path, negatives=["random", "historical"])
    for kind in ("random", "historical"):
        assert again["test"]["transductive"][kind]["ap"] == metrics[kind]["ap"]


def test_a_finished_run_is_returned_as_it_is_and_leaves_the_process_alone(
    run: tpnet_dist.Run, log: Path
) -> None:
    before, state = (run.path / "results.json").read_bytes(), process_state()
    assert tpnet_dist.fit(log, run_dir=str(run.path), **SMALL) == run
    assert (run.path / "results.json").read_bytes() == before
    assert process_state() == state
    with refused():
        tpnet_dist.fit(log, run_dir=run.path, fresh=True, **SMALL)
    with refused():
        tpnet_dist.fit(log, run_dir=run.path, **{**SMALL, "memory__width": 8})
    assert process_state() == state


def test_a_stopped_run_says_so_and_goes_on_to_the_same_results(
    run: tpnet_dist.Run, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, write = process_state(), RunLog.write

    def interrupted(self: RunLog, kind: str, step: int, values: Any) -> None:
        write(self, kind, step, values)
        if step == 11:  # after ten, ranks have agreed for the first time whether to stop
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(RunLog, "write", interrupted)
    with pytest.raises(tpnet_dist.RunStopped) as stopped:
        tpnet_dist.fit(log, run_dir=tmp_path / "run", **SMALL)
    monkeypatch.setattr(RunLog, "write", write)
    assert isinstance(stopped.value, KeyboardInterrupt)
    assert str(stopped.value).startswith("stopped by SIGTERM during ")
    assert str(stopped.value).endswith("; saved; call fit again to go on")
    half = stopped.value.run
    assert half.results is None
    assert process_state() == state
    assert tpnet_dist.fit(log, run_dir=half.path, **SMALL) == half
    assert compared(half) == compared(run)
    assert half.curves["loss"].to_list() == run.curves["loss"].to_list()


def test_a_run_in_another_thread_and_in_a_folder_of_its_own_making(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs: list[tpnet_dist.Run] = []
    thread = threading.Thread(target=lambda: runs.append(tpnet_dist.fit(log, training__max_steps=1, **SMALL)))
    thread.start()
    thread.join()
    [run] = runs
    assert run.path.parent == Path("runs")
    assert run.results is not None


@needs_deepspeed
def test_deepspeed_trains_twice_in_one_process(log: Path, tmp_path: Path) -> None:
    state = process_state()[0]
    settings = {**SMALL, "training__engine": "deepspeed", "training__max_steps": 1}
    runs = [tpnet_dist.fit(log, run_dir=tmp_path / name, **settings) for name in ("a", "b")]
    assert compared(runs[0]) == compared(runs[1])
    assert process_state()[0] == state


def test_two_ranks_make_the_same_calls_and_come_to_the_same(
    run: tpnet_dist.Run, log: Path, tmp_path: Path
) -> None:
    script = tmp_path / "train_mine.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", script]
    done = subprocess.run(
        [*command, log, tmp_path, json.dumps(SMALL)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    two = tpnet_dist.open_run(tmp_path / "run")
    assert two.results is not None
    assert two.results["ranks"] == 2
    assert compared(two) == compared(run)
