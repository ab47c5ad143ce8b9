"""The Python API before anything trains: which settings a call makes, and what it refuses."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.distributed as dist

import tpnet_dist
from benchmarks.rank_pool import world_of_one
from tests.support.command_line import ROOT
from tests.support.sentences import refused
from tpnet_dist.api import Run
from tpnet_dist.config.keyword_settings import call_settings
from tpnet_dist.config.schema import Config
from tpnet_dist.config.toml_files import write_config
from tpnet_dist.config.train_args import OwnFlags, TrainSettings, parse_train
from tpnet_dist.distributed.rank_scope import process_restored
from tpnet_dist.files.stored_json import sealed_line


def asked(data: Path | str | None = "data/mine", **given: Any) -> TrainSettings:
    own: dict[str, Any] = {name: given.pop(name, None) for name in ("preset", "config", "run_dir")}
    own = {name: value if name == "preset" or value is None else Path(value) for name, value in own.items()}
    return call_settings(data, OwnFlags(**own, fresh=given.pop("fresh", False)), given)


REFUSED: list[dict[str, Any]] = [
    {"memory__decy": 1},
    {"memory.decay": 1},
    {"epochs": 1},
    {"runs_dir": "runs/a"},
    {"memory__cache_rows": 1},
    {"memory__width": "16"},
    {"memory__decay": True},
    {"training__epochs": None},
    {"model__name": "other"},
    {"data__folder": "there"},
]


@pytest.mark.parametrize("given", REFUSED, ids=str)
def test_what_cannot_be_used_gets_one_sentence(given: dict[str, Any]) -> None:
    with refused():
        asked(**given)


@pytest.mark.parametrize(
    ("given", "taken"),
    [(1e-7, 1e-7), ((1e-5, 1e-7), (1e-7, 1e-5)), (np.array([1e-5]), 1e-5), ("auto", "auto")],
    ids=str,
)
def test_a_call_gives_a_timescale_several_or_the_word_auto(given: object, taken: object) -> None:
    assert asked(memory__decay=given).config.memory.decay == taken


def test_a_call_says_what_a_command_line_says(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[memory]\nwidth = 16\nhops = 2\n")
    args = ["data/mine", "--preset", "uci", "--config", str(file), "--run-dir", "runs/a", "--fresh"]
    args += ["--memory.hops", "1", "--training.seeds", "0", "1", "--model.scale", "False"]
    args += ["--evaluation.negatives", "random", "historical", "--memory.borrowed-rows", "none"]
    settings = asked(
        Path("data/mine"),
        preset="uci",
        config=str(file),
        run_dir="runs/a",
        fresh=True,
        memory__hops=1,
        training__seeds=[0, 1],
        model__scale=False,
        evaluation__negatives=("random", "historical"),
        memory__borrowed_rows=None,
    )
    assert settings == parse_train(args)


def test_numbers_of_numpy_and_paths_serve_as_values(tmp_path: Path) -> None:
    settings = asked(
        memory__width=np.int64(16),
        memory__decay=np.float64(1e-7),
        training__seeds=np.arange(2),
        model__weights=tmp_path / "best.pt",
    )
    config = settings.config
    assert (config.memory.width, config.memory.decay) == (16, 1e-7)
    assert (config.training.seeds, config.model.weights) == ((0, 1), str(tmp_path / "best.pt"))


def test_without_data_the_built_in_log_is_meant() -> None:
    assert asked(None) == parse_train([])
    with refused():
        asked(None, preset="uci")


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with refused():
        tpnet_dist.open_run(tmp_path)


def test_a_run_that_has_only_started_has_no_results_and_empty_curves(tmp_path: Path) -> None:
    write_config(Config(), tmp_path / "config.toml")
    run = tpnet_dist.open_run(str(tmp_path))
    assert (run.path, run.config, run.results) == (tmp_path, Config(), None)
    assert run.curves.columns == ["seed", "epoch", "step", "kind", "seconds", "loss", "running_ap"]
    assert run.curves.is_empty()


def test_a_line_that_is_being_written_is_no_row_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    line = {"kind": "step", "step": 1, "seconds": 0.5, "seed": 0, "epoch": 1, "loss": 0.7, "running_ap": 0.5}
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text(f'{sealed_line(line)}\n{{"kind": "st')
    assert Run(tmp_path).curves.to_dicts() == [line]
    metrics.write_text(f"half\n{sealed_line(line)}\n")
    with refused():
        _ = Run(tmp_path).curves


@pytest.mark.parametrize(
    "options",
    [
        {"negatives": "random"},
        {"negatives": ["other"]},
        {"mrr_negatives": "many"},
        {},
    ],
)
def test_bad_options_of_an_evaluation_get_one_sentence(tmp_path: Path, options: dict[str, Any]) -> None:
    with refused():
        Run(tmp_path).evaluate(**options)
    assert not dist.is_initialized()


def test_a_process_group_of_somebody_else_is_refused_and_stays() -> None:
    with world_of_one():
        with refused():
            tpnet_dist.fit("data/mine")
        assert dist.is_initialized()


def test_a_process_is_as_it_was_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "3")
    environment, excepthook = dict(os.environ), sys.excepthook
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="broken"), process_restored():
        os.environ["ADDED"] = "1"
        os.environ["LOCAL_RANK"] = "0"
        sys.excepthook = print
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise ValueError("broken")
    assert dict(os.environ) == environment
    assert sys.excepthook is excepthook
    assert signal.getsignal(signal.SIGINT) == handler


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, tpnet_dist; print('torch' in sys.modules, tpnet_dist.__all__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False ['Predictor', 'Run', 'RunStopped'")
