"""`doctor` on two CPU ranks: all is well, and where it is not, the report and the exit code say so."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import run_here
from tests.support.emulated_cuda.library import ROOT, compiler
from tpnet_dist.checkup.examine import examine
from tpnet_dist.checkup.short_training import ShortTraining
from tpnet_dist.doctor import main

SMALL = ("--device", "cpu", "--steps", "8", "--batch-size", "30")


@pytest.mark.timeout(900)
def test_two_cpu_ranks_are_well_and_the_report_says_all_of_it(tmp_path: Path) -> None:
    done = run_here(main, tmp_path / "kept", *SMALL, "--json")
    said = json.loads(done.stdout)
    assert done.returncode == 0, said["summary"]
    assert [verdict["name"] for verdict in said["verdicts"]] == [
        "all-to-all",
        "all-reduce",
        "losses of 2 CPU ranks",
    ]
    assert "to the last bit" in said["verdicts"][2]["detail"]
    one, two = said["trainings"]
    assert len(one["losses"]) == 8
    assert one["losses"] == two["losses"]
    assert [len(each["phase_seconds"]) for each in (one, two)] == [1, 2]
    assert all(each["phase_seconds"][0]["backward"] > 0 for each in (one, two))
    assert [each["ranks"] for each in said["predictions"]] == [1, 2]
    assert (tmp_path / "kept" / "run-cpu-2.log").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_emulated_gpus_are_well(tmp_path: Path) -> None:
    if compiler() is None:
        pytest.skip("no C++ compiler here, which the emulated CUDA device needs")
    command = ["-m", "tests.support.emulated_cuda", "-m", "tpnet_dist.doctor", "--json", "--ranks", "2"]
    done = subprocess.run(
        [sys.executable, *command, "--steps", "4", "--batch-size", "30", str(tmp_path / "kept")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=False,
    )
    said = json.loads(done.stdout)
    assert done.returncode == 0, said["summary"]
    assert [each["name"] for each in said["trainings"]] == ["1 CPU rank", "1 CUDA rank", "2 CUDA ranks"]
    assert said["facts"]["GPU 3"].startswith("emulated")


@pytest.mark.timeout(900)
def test_ranks_that_fail_are_a_finding_with_their_own_sentence(tmp_path: Path) -> None:
    what = ShortTraining(data=tmp_path / "absent", steps=2, batch_size=10)
    findings = examine(what, tmp_path, device="cpu", ranks=1, say=lambda stage: None)
    [verdict] = findings.verdicts
    assert not findings.ok
    assert str(tmp_path / "absent") in verdict.detail
    assert str(tmp_path / "run-cpu-1.log") in verdict.detail
    assert "differs: training on 1 CPU rank(s)" in findings.summary()
