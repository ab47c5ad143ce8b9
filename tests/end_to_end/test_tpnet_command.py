"""`tpnet COMMAND`: ranks that it starts itself, and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.end_to_end.test_training import lines_of, train
from tests.support.command_line import ROOT, run_here
from tests.support.training_runs import flags_of, small_config, small_log
from tpnet_dist import __main__ as tpnet

SECONDS = 280
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
TPNET = [sys.executable, "-m", "tpnet_dist"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]

MISTAKES = {
    "a flag that is none": (["LOG", "--training.epoch", "2"], "did you mean --training.epochs?"),
    "a number that is none": (["LOG", "--training.epochs", "two"], "write it like 20 or 1e6"),
    "below the least": (["LOG", "--training.batch-size", "0"], "training.batch_size is 0"),
    "a model that is none": (["LOG", "--model.name", "tpnett"], "tpnet"),
    "a preset that is none": (["LOG", "--preset", "ucii"], "choose one of can_parl"),
    "two data folders": (["LOG", "LOG"], "give one"),
    "no such data folder": (["nowhere"], "no such data folder"),
    "no such settings file": (["LOG", "--config", "none.toml"], "none.toml"),
    "a folder that is no run": (["LOG", "--run-dir", "LOG"], "holds files but no run"),
    "a rate below 0": (["LOG", "--memory.decay", "-1"], "memory.decay"),
}
BEFORE_RANKS_START = ("a flag that is none", "a number that is none", "two data folders")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("tpnet") / "log")


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=SECONDS, check=False
    )


def require_said_once(mistake: str, folder: Path, *more: str) -> None:
    """Through `tpnet train --ranks 2`: one line, whatever the mistake and however many restarts."""
    args, part = MISTAKES[mistake]
    args = [str(folder) if arg == "LOG" else arg for arg in args]
    done = run([*TPNET, "train", *args, "--ranks", "2", *more], folder.parent)
    assert done.returncode == 2, done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("tpnet train: error: ") and part in line


@pytest.mark.parametrize("mistake", [*BEFORE_RANKS_START, "no such data folder"])
def test_a_mistake_is_said_once_and_not_tried_again(folder: Path, mistake: str) -> None:
    require_said_once(mistake, folder, "--restarts", "3")


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_mistake_is_said_once(folder: Path, mistake: str) -> None:
    require_said_once(mistake, folder)


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_torchruns_summary_shows_the_sentence(folder: Path, mistake: str) -> None:
    args, part = MISTAKES[mistake]
    args = [str(folder) if arg == "LOG" else arg for arg in args]
    done = run([*TORCHRUN, "-m", "tpnet_dist.train", *args], folder.parent)
    assert done.returncode != 0
    _, summary = done.stderr.split("Root Cause (first observed failure):")
    assert "exitcode  : 2" in summary
    assert "python -m tpnet_dist.train: error: " in summary and part in summary
    said = [line.startswith("python -m tpnet_dist.train: error: ") for line in done.stderr.splitlines()]
    assert sum(said) <= 1  # torchrun may end the first rank, which says it, when another was faster


def test_ctrl_c_saves_and_ends_with_130_and_the_run_goes_on(folder: Path, tmp_path: Path) -> None:
    where = tmp_path / "run"
    args = [
        str(folder),
        "--run-dir",
        str(where),
        *flags_of(small_config(folder)),
        "--checkpoint.every-steps",
        "3",
    ]
    process = subprocess.Popen(
        [*TPNET, "train", *args, "--ranks", "2"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + SECONDS
    while not list(where.glob("checkpoints/seed-0/step-*")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    last = said.splitlines()[-1]
    assert last.startswith("tpnet train: stopped by SIGINT during ")
    assert last.endswith("; saved; repeat the command to go on")
    [step] = re.findall(r", step (\d+); saved; ", last)
    again = run([*TPNET, "train", *args, "--ranks", "2", "--checkpoint.every-steps", "3"], tmp_path)
    assert again.returncode == 0, again.stderr
    assert f": going on from step {step}, epoch " in again.stderr
    seconds = [line["seconds"] for line in lines_of(where, "step")]
    assert seconds == sorted(seconds)
    assert str(json.loads((where / "results.json").read_text())["run"]["command"]).startswith("tpnet train ")
    train(folder, tmp_path / "whole", "--checkpoint.every-steps", 3, ranks=2)
    losses, wanted = (
        [line["loss"] for line in lines_of(each, "step")] for each in (where, tmp_path / "whole")
    )
    assert losses == wanted


def test_the_overview_names_every_command_and_each_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    overview = run_here(tpnet.main, "--help").stdout
    for name in tpnet.SUBCOMMANDS:
        assert f"  {name} " in overview
        done = run_here(tpnet.main, name, "--help")
        assert done.returncode == 0
        assert f"tpnet {name}" in done.stdout
    assert "--training.epochs" in run_here(tpnet.main, "train", "--help").stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["trian"], "tpnet: error: unknown command trian; did you mean train?"),
        (["prep", "conver"], "tpnet prep: error: unknown command conver; did you mean convert?"),
        (["plan"], "tpnet plan: error: no log is given; say --events 1e8, or name a data folder with --data"),
        (["train", "--ranks", "many"], "tpnet train: error: --ranks is 'many'"),
        (["train", "--restarts", "-1"], "tpnet train: error: --restarts is -1"),
    ],
)
def test_messages_name_the_command_as_it_was_typed(args: list[str], said: str) -> None:
    done = run_here(tpnet.main, *args)
    assert done.returncode == 2
    assert done.stderr.startswith(said)


def test_ranks_that_are_there_are_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    done = run_here(tpnet.main, "train", "--ranks", "2")
    assert done.returncode == 2
    assert "--ranks is 2, but 4 were started already; leave --ranks away" in done.stderr


def test_versions_are_told_and_every_command_knows_the_flag() -> None:
    found = json.loads(run_here(tpnet.main, "version", "--json").stdout)
    assert found["tpnet_dist"] in run_here(tpnet.main, "--version").stdout
    assert found["torch"] and found["devices"]
    assert run_here(tpnet.main, "train", "--version").stdout == f"tpnet_dist {found['tpnet_dist']}\n"
