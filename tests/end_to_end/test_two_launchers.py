"""Ranks of several torchruns are started again together, though each torchrun counts for itself."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.test_interrupted_training import FLAGS, require_same, steps_of
from tests.end_to_end.test_training import train
from tests.support.command_line import ROOT
from tests.support.free_port import free_port
from tests.support.training_process import SECONDS, TrainingProcess
from tests.support.training_runs import small_log

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# ranks that do not meet are to fail the test soon
PATIENCE = ("--training.timeout", 90)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("launchers") / "log")


@pytest.fixture(scope="module")
def whole(folder: Path) -> Path:
    """Two ranks of one torchrun, undisturbed."""
    run = folder.parent / "whole"
    train(folder, run, *FLAGS, ranks=2)
    return run


class Machines:
    """Two torchruns of one rank each, that meet on this machine."""

    def __init__(self, folder: Path, run: Path, **env: str) -> None:
        self.folder, self.run, self.env, self.port = folder, run, env, free_port()
        self.processes = [self.start(is_host=True), self.start(is_host=False)]

    def start(self, *, is_host: bool) -> TrainingProcess:
        """`is_host`: they meet there, so it is not to die."""
        meeting = ("--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{self.port}")
        return TrainingProcess.start(
            self.folder,
            self.run,
            *(*FLAGS, *PATIENCE, "--fresh"),
            ranks=1,
            meeting=(*meeting, f"--rdzv-id={self.port}", f"--rdzv-conf=is_host={int(is_host)}"),
            launch=("--max-restarts=3",),
            **self.env,
        )

    def first_and_other(self) -> list[TrainingProcess]:
        """The one whose rank is the first, and the other."""
        return sorted(self.processes, key=lambda each: environment_of(each.rank_ids()[0])["RANK"])

    def texts(self) -> str:
        return "\n".join(process.text() for process in self.processes)

    def require_end(self) -> None:
        for process in self.processes:
            assert process.process.wait(timeout=SECONDS) == 0, self.texts()


def test_a_machine_that_lacks_a_file_says_so_though_its_rank_is_not_the_first(tmp_path: Path) -> None:
    port = free_port()

    def start(host: int, *args: str) -> subprocess.Popen[str]:
        meeting = ["--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}"]
        meeting += [f"--rdzv-id={port}", f"--rdzv-conf=is_host={int(host == 0)}", "--nproc_per_node=1"]
        command = ["-m", "tpnet_dist.predict", str(tmp_path / "run"), "--save", str(tmp_path / "kept"), *args]
        launch = [sys.executable, "-m", "tpnet_dist.distributed.launcher", *meeting, *command]
        return subprocess.Popen(launch, cwd=ROOT, stderr=subprocess.PIPE, text=True)

    processes = [start(0, "--config", "a.toml"), start(1, "--config", "b.toml")]
    for process, name in zip(processes, "ab", strict=True):
        _, said = process.communicate(timeout=SECONDS)
        assert (process.returncode, said.count(f"error: {name}.toml: No such file"), said.count("\n")) == (
            2,
            1,
            1,
        )


def environment_of(process: int) -> dict[str, str]:
    pairs = Path(f"/proc/{process}/environ").read_text().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_dies_is_started_again_with_those_of_other_torchruns(
    folder: Path, whole: Path, tmp_path: Path, victim: int
) -> None:
    run = tmp_path / "run"
    machines = Machines(folder, run)
    machines.processes[0].wait_until(lambda: steps_of(run))
    first_and_other = machines.first_and_other()
    first_and_other[victim].send(signal.SIGKILL, 0)
    machines.require_end()
    assert f"rank {victim} (host " in machines.texts()
    require_same(run, whole)


def test_a_machine_that_is_replaced_goes_on_with_those_that_are_left(
    folder: Path, whole: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    # by default torchrun never tells a machine that comes later where its ranks meet
    machines = Machines(folder, run, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")
    machines.processes[0].wait_until(lambda: steps_of(run))
    lost = machines.processes.pop()
    assert lost.rank_ids()
    lost.process.kill()
    lost.process.wait()
    machines.processes.append(machines.start(is_host=False))
    machines.require_end()
    require_same(run, whole)
