"""A run that was stopped or killed goes on and ends as if it had not been."""

import json
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.test_training import lines_of, train
from tests.support.training_process import TrainingProcess
from tests.support.training_runs import small_log

FLAGS = ("--training.epochs", 2, "--checkpoint.every-steps", 3)
SLOW_VALIDATION = (*FLAGS, "--evaluation.batch-size", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("interrupted") / "log")


@pytest.fixture(scope="module")
def whole(folder: Path) -> Path:
    """Two ranks, undisturbed."""
    run = folder.parent / "whole"
    train(folder, run, *FLAGS, ranks=2)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("every_steps", [0, 3])
def test_a_killed_run_goes_on_to_the_same_results(folder: Path, tmp_path: Path, every_steps: int) -> None:
    args = ("--training.epochs", 2, "--checkpoint.every-steps", every_steps)
    train(folder, tmp_path / "whole", *args)
    run = tmp_path / "killed"
    process = TrainingProcess.start(folder, run, *args, ranks=1)
    process.wait_until(lambda: steps_of(run))
    process.send(signal.SIGKILL, 0)
    process.end()
    assert not (run / "results.json").exists()
    train(folder, run, *args)
    require_same(run, tmp_path / "whole")


def test_two_ranks_that_are_stopped_then_lose_one_go_on_to_the_same_results(
    folder: Path, whole: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    # a signal to one rank: both finish the step, save, and leave
    stopped = TrainingProcess.start(folder, run, *FLAGS, ranks=2)
    stopped.wait_until(lambda: steps_of(run))
    stopped.send(signal.SIGTERM, 1)
    assert stopped.end() == 0, stopped.text()
    [sentence] = stopped.lines()
    assert sentence.startswith("stopped by SIGTERM during ")
    assert sentence.endswith("; saved; repeat the command to go on")
    assert not (run / "results.json").exists()
    # a rank dies: the other says which one, and in which phase
    saved = steps_of(run)
    killed = TrainingProcess.start(folder, run, *FLAGS, ranks=2)
    killed.wait_until(lambda: steps_of(run) != saved)
    killed.send(signal.SIGKILL, 1)
    assert killed.end() != 0
    [sentence] = killed.lines()
    assert sentence.startswith("rank 1 (host ")
    assert ") died during " in sentence
    assert "; the run ends; repeat the command to go on from step " in sentence
    train(folder, run, *FLAGS, ranks=2)
    require_same(run, whole)


def test_ranks_with_different_settings_refuse_to_start(folder: Path, tmp_path: Path) -> None:
    """A shell between torchrun and python gives rank 1 a flag of its own."""
    wrapper = tmp_path / "python"
    wrapper.write_text(
        '#!/bin/sh\n[ "$RANK" = 1 ] && set -- "$@" --training.engine deepspeed\nexec "$REAL" "$@"\n'
    )
    wrapper.chmod(0o755)
    refused = TrainingProcess.start(
        folder, tmp_path / "run", ranks=2, PYTHON_EXEC=str(wrapper), REAL=sys.executable
    )
    assert refused.end() != 0
    [sentence] = refused.lines("python -m tpnet_dist.train: error: ")
    assert sentence == (
        "rank 1 has training.engine = 'deepspeed' where rank 0 has 'ddp'; "
        "start all ranks with the same data folder and settings"
    )


VICTIMS = ("one rank", "all ranks", "torchrun")


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(10))
def test_kills_at_random_moments_change_nothing(
    folder: Path, whole: Path, tmp_path: Path, moment: int
) -> None:
    run, draws, victim = tmp_path / "run", random.Random(moment), VICTIMS[moment % 3]
    process = TrainingProcess.start(folder, run, *FLAGS, ranks=2)
    # while it saves; or anywhere, in training and validation, after so many of some 10 checkpoints
    look, wanted = (halves_of, draws.randrange(1, 5)) if moment % 2 else (steps_of, draws.randrange(1, 9))
    seen: set[str] = set()
    process.wait_until(lambda: len(seen.update(look(run)) or seen) >= wanted)
    time.sleep(0 if moment % 2 else draws.uniform(0, 0.3))
    kill(process, victim)
    assert not (run / "results.json").exists()
    process.end()
    train(folder, run, *FLAGS, ranks=2)
    require_same(run, whole)
    assert not halves_of(run)


@pytest.fixture(scope="module")
def slowly_validated(folder: Path) -> Path:
    """Two ranks, undisturbed, with a validation that takes seconds."""
    run = folder.parent / "slowly-validated"
    train(folder, run, *SLOW_VALIDATION, ranks=2)
    return run


@pytest.mark.slow
@pytest.mark.parametrize("victim", VICTIMS)
def test_kills_during_validation_change_nothing(
    folder: Path, slowly_validated: Path, tmp_path: Path, victim: str
) -> None:
    run = tmp_path / "run"
    process = TrainingProcess.start(folder, run, *SLOW_VALIDATION, ranks=2)
    steps = sum(line["epoch"] == 1 for line in lines_of(slowly_validated, "step"))
    process.wait_until(lambda: (run / "metrics.jsonl").exists() and len(lines_of(run, "step")) == steps)
    kill(process, victim)
    assert not lines_of(run, "eval")
    process.end()
    train(folder, run, *SLOW_VALIDATION, ranks=2)
    require_same(run, slowly_validated)


@pytest.mark.slow
def test_torchrun_starts_ranks_again_in_the_same_folder(folder: Path, whole: Path) -> None:
    """Also where the folder's name was made up from the time."""
    process = TrainingProcess.start(folder, None, *FLAGS, ranks=2, launch=("--max-restarts=3",))
    runs = folder.parent / "runs"
    process.wait_until(lambda: runs.exists() and any(steps_of(run) for run in runs.glob("log-*")))
    process.send(signal.SIGKILL, 0)
    [run] = runs.glob("log-*")
    assert process.process.wait(timeout=240) == 0, process.text()
    assert [path for path in runs.iterdir() if path.is_dir()] == [run]
    assert process.lines()[0].startswith("rank 0 (host ")
    require_same(run, whole)


@pytest.mark.slow
def test_a_stopped_launcher_leaves_a_run_that_goes_on(folder: Path, whole: Path, tmp_path: Path) -> None:
    process = TrainingProcess.start(folder, tmp_path / "run", *FLAGS, ranks=2)
    process.wait_until(lambda: steps_of(tmp_path / "run"))
    ids = process.rank_ids()
    process.process.send_signal(signal.SIGTERM)
    process.end()
    assert ids
    [sentence] = process.lines()
    assert sentence.startswith("stopped by SIGTERM during ")
    train(folder, tmp_path / "run", *FLAGS, ranks=2)
    require_same(tmp_path / "run", whole)


@pytest.mark.slow
def test_a_rank_that_stands_still_ends_the_run_within_the_timeout(folder: Path, tmp_path: Path) -> None:
    run, timeout = tmp_path / "run", 20
    process = TrainingProcess.start(folder, run, *FLAGS, "--training.timeout", timeout, ranks=2)
    process.wait_until(lambda: steps_of(run))
    process.send(signal.SIGSTOP, 1)
    frozen = time.monotonic()
    process.wait_until(process.lines)
    assert time.monotonic() - frozen < timeout + 15
    [sentence] = process.lines()
    assert sentence.startswith("rank 1 (host ")
    assert "has not answered for" in sentence
    process.send(signal.SIGKILL, -1)  # torchrun would wait for it for half a minute
    assert process.end() != 0


@pytest.mark.slow
def test_four_ranks_then_two_then_three_learn_the_same(folder: Path, tmp_path: Path) -> None:
    train(folder, tmp_path / "whole", *FLAGS, ranks=4)
    run = tmp_path / "run"
    for ranks in (4, 2):
        before = steps_of(run)
        process = TrainingProcess.start(folder, run, *FLAGS, ranks=ranks)
        process.wait_until(lambda: steps_of(run) - before)  # noqa: B023 — it is called here and now
        kill(process, "all ranks")
        process.end()
    train(folder, run, *FLAGS, ranks=3)
    require_same(run, tmp_path / "whole")


def kill(process: TrainingProcess, victim: str) -> None:
    if victim == "torchrun":
        ids = process.rank_ids()
        process.process.kill()
        assert ids
    elif victim == "one rank":
        process.send(signal.SIGKILL, 1)
    else:
        process.send(signal.SIGKILL, *range(process.ranks))


def steps_of(run: Path) -> set[str]:
    return {path.name for path in run.glob("checkpoints/seed-0/step-*")}


def halves_of(run: Path) -> set[str]:
    return {path.name for path in run.glob("checkpoints/seed-0/.step-*")}


def require_same(run: Path, whole: Path) -> None:
    """To the last bit, in results and in all that was measured on the way."""
    mine, theirs = (json.loads((one / "results.json").read_text()) for one in (run, whole))
    for name in ("val", "test", "best_epoch", "epochs_run"):
        assert json.dumps(mine[name]) == json.dumps(theirs[name])
    for kind in ("step", "eval"):
        assert metrics_of(run, kind) == metrics_of(whole, kind)


def metrics_of(run: Path, kind: str) -> list[dict[str, Any]]:
    """All but what it took, time, and bytes between ranks, whose caches are empty after a restart; and the
    checksum of these."""
    return [{**line, "seconds": 0, "exchange": {}, "crc": ""} for line in lines_of(run, kind)]
