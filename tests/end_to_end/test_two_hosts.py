"""Two machines, each with its own torchrun and network: the same losses, and a cut cable is no riddle."""

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.end_to_end.test_interrupted_training import steps_of
from tests.end_to_end.test_training import lines_of, train
from tests.support.command_line import ROOT
from tests.support.network_hosts import ADDRESSES, INTERFACE, Hosts, can_make_hosts, two_hosts
from tests.support.training_runs import flags_of, small_config, small_log

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not can_make_hosts(), reason="network namespaces need root and iproute2"),
]

FLAGS = ("--training.max-steps", "60", "--checkpoint.every-steps", "3")
TIMEOUT = 15
SECONDS = 240
SENTENCE = "; the run ends; repeat the command to go on from step "
WHO_AND_WHERE = re.compile(
    r"^python -m tpnet_dist\.train: rank \d.* (during|since) (the start|[a-z ]+, epoch \d+, step \d+)"
    rf".*{SENTENCE}\d+$",
    re.MULTILINE,
)
SECONDS_TO_LEAVE = 20


@dataclass
class Launch:
    """Two torchruns of two ranks each, under way."""

    processes: list[subprocess.Popen[str]]
    outputs: list[Path]

    @classmethod
    def start(cls, hosts: Hosts, folder: Path, run: Path, port: int) -> "Launch":
        outputs = [folder.parent / f"host-{host}-{port}.txt" for host in (0, 1)]
        processes = []
        for host, output in enumerate(outputs):
            command = [*hosts.inside(host), sys.executable, *torchrun(host, port), *training(folder, run)]
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": INTERFACE}
            with output.open("w") as file:
                started = subprocess.Popen(
                    command, cwd=ROOT, env=environment, stdout=file, stderr=file, text=True
                )
            processes.append(started)
        return cls(processes, outputs)

    def end(self) -> list[int]:
        return [process.wait(timeout=SECONDS) for process in self.processes]

    def wait_for_sentences(self, seconds: float) -> None:
        """Until each host has said that the run ends, and how to go on."""
        deadline = time.monotonic() + seconds
        while not all(SENTENCE in text for text in self.texts()):
            assert time.monotonic() < deadline, self.texts()
            time.sleep(0.1)

    def ranks(self) -> list[psutil.Process]:
        """Processes of ranks that are at work, on both hosts."""
        children = [child for process in self.processes for child in psutil.Process(process.pid).children()]
        return [child for child in children if "tpnet_dist.train" in command_of(child)]

    def texts(self) -> list[str]:
        return [output.read_text() for output in self.outputs]

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def command_of(process: psutil.Process) -> list[str]:
    """Empty once it has ended, whether or not its launcher has taken note."""
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def torchrun(host: int, port: int) -> list[str]:
    return [
        *("-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=2"),
        *("--rdzv-backend=c10d", f"--rdzv-endpoint={ADDRESSES[0]}:{port}", f"--rdzv-id={port}"),
        # namespaces share the machine's name, by which torchrun would know whose the endpoint is
        *(f"--rdzv-conf=is_host={int(host == 0)}", f"--local-addr={ADDRESSES[host]}"),
    ]


def training(folder: Path, run: Path) -> list[str]:
    flags = [*flags_of(small_config(folder)), *FLAGS, "--training.timeout", str(TIMEOUT)]
    return ["-m", "tpnet_dist.train", str(folder), "--run-dir", str(run), *flags]


def test_two_hosts_train_as_one_and_survive_a_cut_cable(tmp_path: Path) -> None:
    folder = small_log(tmp_path / "log", events=4000)
    train(folder, tmp_path / "one", *FLAGS, ranks=4)
    run = tmp_path / "two"
    with two_hosts() as hosts:
        cut = Launch.start(hosts, folder, run, 29511)
        deadline = time.monotonic() + SECONDS
        while not steps_of(run):
            assert time.monotonic() < deadline, cut.texts()
            time.sleep(0.05)
        ranks = cut.ranks()
        assert len(ranks) == 4
        hosts.cut()
        cut.wait_for_sentences(TIMEOUT + 25)
        for text in cut.texts():
            assert WHO_AND_WHERE.search(text), text
        deadline = time.monotonic() + SECONDS_TO_LEAVE
        while left := [rank for rank in ranks if command_of(rank)]:
            assert time.monotonic() < deadline, (left, cut.texts())
            time.sleep(0.1)
        # torchrun of the host without the store would try to reach it for minutes
        cut.kill()
        hosts.rejoin()
        again = Launch.start(hosts, folder, run, 29512)
        assert again.end() == [0, 0], again.texts()
    ours, wanted = ([line["loss"] for line in lines_of(one, "step")] for one in (run, tmp_path / "one"))
    np.testing.assert_allclose(ours, wanted, rtol=1e-5)
