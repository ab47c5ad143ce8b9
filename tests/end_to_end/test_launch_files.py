"""The files of launch/ start what they say, on ranks of this machine."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.end_to_end.test_training import ONE_THREAD, lines_of, train
from tests.support.command_line import ROOT
from tests.support.deepspeed_here import needs_deepspeed
from tests.support.free_port import free_port
from tests.support.launched_ranks import run_launched
from tests.support.training_runs import flags_of, small_config, small_log

SECONDS = 600
LAUNCH = ROOT / "launch"
SCRIPTS = sorted([*LAUNCH.glob("*.sh"), *LAUNCH.glob("*.sbatch")])
ENVIRONMENT = {**os.environ, **ONE_THREAD, "PYTHON": sys.executable}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("launch") / "log", events=600)


def launched(script: str, *args: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(LAUNCH / script), *map(str, args)]
    return subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**ENVIRONMENT, "MASTER_PORT": free_port(), **environment},
    )


def args_for(folder: Path, run: Path, *more: object) -> list[object]:
    return [folder, "--run-dir", run, *flags_of(small_config(folder)), *more]


def results_of(run: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((run / "results.json").read_text())
    return results


def kill_after_a_checkpoint(command: list[str], run: Path) -> None:
    """Launcher and ranks, as soon as there is something to go on from."""
    process = psutil.Popen(
        command,
        cwd=ROOT,
        env={**ENVIRONMENT, "MASTER_PORT": free_port()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not list(run.glob("checkpoints/seed-0/step-*")):
        assert process.poll() is None, "it ended before it saved"
        time.sleep(0.02)
    # torchrun's ranks have sessions of their own, and would outlive it
    for each in [process, *process.children(recursive=True)]:
        each.kill()
    process.wait()
    assert not (run / "results.json").exists()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_says_how_to_run_it_and_is_one(script: Path) -> None:
    shebang, first, *_ = script.read_text().splitlines()
    assert shebang.startswith("#!/bin/")
    assert first.startswith("# ") and f"launch/{script.name} " in first
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    done = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")


def test_one_node_trains_and_shows_a_finished_run(folder: Path, tmp_path: Path) -> None:
    args = args_for(folder, tmp_path / "run", "--training.epochs", 1)
    done = launched("one_node.sh", 2, *args)
    assert done.returncode == 0, done.stderr
    assert results_of(tmp_path / "run")["ranks"] == 2
    assert launched("one_node.sh", "two", *args).returncode == 2


@needs_deepspeed
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_deepspeeds_launcher_trains_and_goes_on_after_a_kill(folder: Path, tmp_path: Path) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    more = ("--checkpoint.every-steps", 3)
    command = [str(LAUNCH / "deepspeed.sh"), "2", *map(str, args_for(folder, run, *more))]
    kill_after_a_checkpoint(command, run)
    done = launched("deepspeed.sh", 2, *args_for(folder, run, *more))
    assert done.returncode == 0, done.stderr
    assert "DeepSpeed" not in done.stdout + done.stderr
    ddp = train(folder, whole, *more, ranks=2)
    results = results_of(run)
    assert results["ranks"] == 2
    losses, wanted = ([line["loss"] for line in lines_of(each, "step")] for each in (run, whole))
    assert losses == pytest.approx(wanted, rel=1e-5)
    ap, other = (each["test"]["transductive"]["random"]["ap"] for each in (results, ddp))
    assert ap == pytest.approx(other, abs=2e-3)


@needs_deepspeed
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("first", "then"), [("ddp", "deepspeed"), ("deepspeed", "ddp")])
def test_a_run_goes_on_with_another_engine_and_fewer_ranks(
    folder: Path, tmp_path: Path, first: str, then: str
) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    more = ("--checkpoint.every-steps", 3)
    args = args_for(folder, run, *more, "--training.engine", first)
    kill_after_a_checkpoint([str(LAUNCH / "one_node.sh"), "2", *map(str, args)], run)
    train(folder, run, *more, "--training.engine", then)
    train(folder, whole, *more)
    losses, wanted = ([line["loss"] for line in lines_of(each, "step")] for each in (run, whole))
    assert losses == pytest.approx(wanted, rel=1e-5)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_nodes_train_as_one_does(folder: Path, tmp_path: Path) -> None:
    """Two agents of torchrun that meet on this machine."""
    endpoint = f"localhost:{free_port()}"
    args = args_for(folder, tmp_path / "two", "--training.epochs", 1)
    command = [str(LAUNCH / "several_nodes.sh"), "2", "1", endpoint, *map(str, args)]
    nodes = [
        subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for node in nodes:
        _, errors = node.communicate(timeout=SECONDS)
        assert node.returncode == 0, errors
    train(folder, tmp_path / "one", "--training.epochs", 1)
    losses, wanted = ([line["loss"] for line in lines_of(tmp_path / run, "step")] for run in ("two", "one"))
    assert results_of(tmp_path / "two")["ranks"] == 2
    assert losses == pytest.approx(wanted, rel=1e-5)


def args_of_srun(script: str, folder: Path, *args: str, **environment: str) -> list[str]:
    """What a job of two nodes gives to srun; stand-ins for SLURM's programs go to `folder`."""
    for name, line in (("srun", 'printf "%s\\n" "$@"'), ("scontrol", 'printf "gpu07\\ngpu08\\n"')):
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    job = {"SLURM_JOB_ID": "41234", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "gpu[07-08]"}
    job["SLURM_CPUS_PER_TASK"] = "12"
    done = subprocess.run(
        ["bash", str(LAUNCH / script), *args],
        capture_output=True,
        text=True,
        check=True,
        env={**job, "PYTHON": "python3", "PATH": f"{folder}:{os.environ['PATH']}", **environment},
    )
    return done.stdout.splitlines()


def test_slurm_starts_one_torchrun_per_node_that_meet_on_the_first(tmp_path: Path) -> None:
    args = ["data/my log", "--run-dir", "runs/a"]
    started = args_of_srun("slurm.sbatch", tmp_path, *args)
    assert started[:4] == ["--cpus-per-task=12", "python3", "-m", "tpnet_dist.distributed.launcher"]
    assert started[-5:] == ["-m", "tpnet_dist.train", *args]
    assert {"--nnodes=2", "--nproc_per_node=gpu", "--rdzv_endpoint=gpu07:21234", "--rdzv_id=41234"} <= set(
        started
    )


def test_ranks_may_save_for_nearly_as_long_as_slurm_warns_before_the_end(tmp_path: Path) -> None:
    script = (LAUNCH / "slurm.sbatch").read_text()
    [warned] = re.findall(r"^#SBATCH --signal=TERM@(\d+)$", script, re.MULTILINE)
    assert f"--shutdown_timeout={int(warned) - 10}" in args_of_srun("slurm.sbatch", tmp_path, "data")
    longer = args_of_srun("slurm.sbatch", tmp_path, "data", TORCH_ELASTIC_SHUTDOWN_TIMEOUT="590")
    assert "--shutdown_timeout=590" in longer


def test_four_rtx_3090_is_a_configuration_that_can_run(folder: Path) -> None:
    path = LAUNCH / "four_rtx_3090.toml"
    first, *_ = path.read_text().splitlines()
    assert re.match(r"# launch/one_node\.sh .*--config launch/four_rtx_3090\.toml", first)
    done = run_launched("tpnet_dist.train", folder, "--config", path, "--check", ranks=2)
    assert done.returncode == 0, done.stderr
    assert "rows, per rank" in done.stdout
