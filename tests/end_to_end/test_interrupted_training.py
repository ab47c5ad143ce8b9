"""A run that was killed goes on and ends as if it had not been."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import ROOT
from tests.end_to_end.test_training import ONE_THREAD, lines_of, train
from tests.training_runs import flags_of, small_config, small_log


@pytest.mark.parametrize("every_steps", [0, 3])
def test_a_killed_run_goes_on_to_the_same_results(tmp_path: Path, every_steps: int) -> None:
    folder = small_log(tmp_path / "log")
    words = ["--training.epochs", "3", "--checkpoint.every-steps", str(every_steps)]
    whole = train(folder, tmp_path / "whole", *words)
    run = tmp_path / "killed"
    command = [sys.executable, "-m", "tpnet_dist.train", folder, "--run-dir", run]
    command += [*flags_of(small_config(folder)), *words]
    # as many threads as the other runs have: sums are added up in another order otherwise
    environment = {**os.environ, **ONE_THREAD}
    process = subprocess.Popen(list(map(str, command)), cwd=ROOT, stderr=subprocess.DEVNULL, env=environment)
    wanted = "step-*.pt"
    deadline = time.monotonic() + 120
    while not list(run.glob(f"checkpoints/seed-0/{wanted}")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (run / "results.json").exists()
    again = train(folder, run, *words)
    for name in ("val", "test", "best_epoch", "epochs_run"):
        assert json.dumps(again[name]) == json.dumps(whole[name])
    for kind in ("step", "eval"):
        assert metrics_of(run, kind) == metrics_of(tmp_path / "whole", kind)


def metrics_of(run: Path, kind: str) -> list[dict[str, Any]]:
    """All but how long it took."""
    return [{**line, "seconds": 0} for line in lines_of(run, kind)]
