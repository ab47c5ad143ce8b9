"""Where one rank fails, all end, and one says which and in which phase. Real torchrun, real processes."""

import subprocess
import sys
import time

import pytest
from torch.distributed import DistBackendError

from tests.support.command_line import ROOT
from tests.support.failing_ranks import NCCL_OUT_OF_MEMORY
from tpnet_dist.distributed.failure import is_caused_by_a_peer


def failing(way: str, timeout: float) -> tuple[str, list[str]]:
    """All that was said, and the lines of ours."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=3"]
    command = [*launcher, "-m", "tests.support.failing_ranks", way, str(timeout)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 1
    return done.stderr, [line for line in done.stderr.splitlines() if line.startswith("ranks: ")]


def test_a_rank_that_raises_shows_its_traceback_and_ends_all() -> None:
    everything, [line] = failing("raise", 600)
    assert line.startswith("ranks: rank 1 (host ")
    assert line.endswith(
        "failed during training, epoch 1, step 1: ValueError: nothing doing; the run ends; repeat the command"
    )
    assert everything.count('raise ValueError("nothing doing")') == 1


def test_a_rank_whose_own_gpu_fails_in_a_collective_is_blamed_for_it() -> None:
    everything, [line] = failing("gpu", 600)
    assert line.startswith("ranks: rank 1 (host ")
    assert "failed during training, epoch 1, step 1: DistBackendError: NCCL error" in line
    assert line.endswith("Cuda failure 2 'out of memory'; the run ends; repeat the command")
    assert everything.count("raise DistBackendError(NCCL_OUT_OF_MEMORY)") == 1


OWN = (
    NCCL_OUT_OF_MEMORY,
    "NCCL error in: x.cpp:1, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.27.3",
)
OF_OTHERS = (
    "NCCL error in: x.cpp:1, remote process exited or there was a network error, NCCL version 2.27.3",
    "[x.cc:78] Timed out waiting 15000ms for recv operation to complete",
)


@pytest.mark.parametrize("text", [*OWN, *OF_OTHERS])
def test_a_collective_that_broke_tells_of_others_unless_this_rank_failed_in_it(text: str) -> None:
    assert is_caused_by_a_peer(DistBackendError(text)) == (text in OF_OTHERS)


@pytest.mark.slow
def test_a_rank_that_dies_is_named_also_where_the_others_hang_in_a_library() -> None:
    """Within torchrun's half minute, though no collective breaks and the timeout is far."""
    _, [line] = failing("die unheard", 600)
    assert line.startswith("ranks: rank 1 (host ")
    assert line.endswith("died during training, epoch 1, step 1; the run ends; repeat the command")


@pytest.mark.slow
def test_a_rank_whose_heart_beats_but_does_not_come_is_called_stuck() -> None:
    started = time.monotonic()
    _, [line] = failing("stuck", 15)
    assert line.startswith("ranks: rank 1 (host ")
    assert "got stuck during training, epoch 1, step 1; what others noticed: " in line
    assert line.endswith("; the run ends; repeat the command")
    assert time.monotonic() - started < 200
