"""A rank of a launcher ends as soon as its command is done."""

import subprocess
import sys

import pytest

COMMAND = """
import atexit
from tpnet_dist.distributed.rank_command import end_rank
class Late:
    def __del__(self):
        print("taken down")
late = Late()
atexit.register(print, "at exit")
end_rank({code})
print("goes on")
"""
TORCHRUN = {"TORCHELASTIC_RUN_ID": "none"}
SLURM = {"RANK": "1", "SLURM_PROCID": "1"}


@pytest.mark.parametrize("launcher", [TORCHRUN, SLURM], ids=["torchrun", "slurm"])
def test_a_launched_rank_ends_with_its_code_without_taking_the_interpreter_down(
    launcher: dict[str, str],
) -> None:
    assert _run(3, launcher) == (3, ["at exit"])


def test_a_process_that_nobody_launched_goes_on() -> None:
    assert _run(3, {}) == (0, ["goes on", "at exit", "taken down"])


def _run(code: int, environment: dict[str, str]) -> tuple[int, list[str]]:
    args = [sys.executable, "-c", COMMAND.format(code=code)]
    done = subprocess.run(args, env=environment, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout.split("\n")[:-1]
