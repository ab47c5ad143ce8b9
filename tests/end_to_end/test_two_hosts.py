"""Two machines, each with its own torchrun and network: the same losses, and a cut cable is no riddle."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import ROOT
from tests.end_to_end.test_interrupted_training import steps_of
from tests.end_to_end.test_training import lines_of, train
from tests.network_hosts import ADDRESSES, INTERFACE, Hosts, can_make_hosts, two_hosts
from tests.training_runs import flags_of, small_config, small_log

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not can_make_hosts(), reason="network namespaces need root and iproute2"),
]

WORDS = ("--training.epochs", "4", "--checkpoint.every-steps", "3")
TIMEOUT = 15
SECONDS = 240


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

    def sentences(self) -> list[str]:
        start = "python -m tpnet_dist.train: "
        lines = [line for output in self.outputs for line in output.read_text().splitlines()]
        return [line.removeprefix(start) for line in lines if line.startswith(start)]


def torchrun(host: int, port: int) -> list[str]:
    return [
        *("-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=2"),
        *("--rdzv-backend=c10d", f"--rdzv-endpoint={ADDRESSES[0]}:{port}", f"--rdzv-id={port}"),
        # namespaces share the machine's name, by which torchrun would know whose the endpoint is
        *(f"--rdzv-conf=is_host={int(host == 0)}", f"--local-addr={ADDRESSES[host]}"),
    ]


def training(folder: Path, run: Path) -> list[str]:
    flags = [*flags_of(small_config(folder)), *WORDS, "--training.timeout", str(TIMEOUT)]
    return ["-m", "tpnet_dist.train", str(folder), "--run-dir", str(run), *flags]


def test_two_hosts_train_as_one_and_survive_a_cut_cable(tmp_path: Path) -> None:
    folder = small_log(tmp_path / "log", events=4000)
    train(folder, tmp_path / "one", *WORDS, ranks=4)
    run = tmp_path / "two"
    with two_hosts() as hosts:
        cut = Launch.start(hosts, folder, run, 29511)
        deadline = time.monotonic() + SECONDS
        while not steps_of(run):
            assert time.monotonic() < deadline, [output.read_text() for output in cut.outputs]
            time.sleep(0.05)
        hosts.cut()
        began = time.monotonic()
        assert all(cut.end()), cut.sentences()
        # torchrun itself takes a while to see that its ranks are gone
        assert time.monotonic() - began < TIMEOUT + 45
        for output in cut.outputs:
            text = output.read_text()
            assert "the run ends; repeat the command to go on from step" in text, text
        hosts.mend()
        again = Launch.start(hosts, folder, run, 29512)
        assert again.end() == [0, 0], [output.read_text() for output in again.outputs]
    ours, wanted = ([line["loss"] for line in lines_of(one, "step")] for one in (run, tmp_path / "one"))
    np.testing.assert_allclose(ours, wanted, rtol=1e-5)
