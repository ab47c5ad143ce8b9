"""An engine may be the last to hold its group of ranks: its end does not wait for ever."""

import subprocess
import sys

from tests.support.command_line import ROOT

SECONDS = 100

OUTLIVES_ITS_WORLD = """
import sys, torch
from tests.support.checkpoints import engine_of, small_model
from benchmarks.rank_pool import world_of_one

for _ in range(20):  # once does not always show it
    sys.setswitchinterval(0.005)
    with world_of_one():
        engine = engine_of(small_model())
    group = engine._scorer.process_group
    sys.setswitchinterval(1000)  # whoever wants the GIL gets it when this thread lets go of it, not before
    for _ in range(20):
        group.allreduce([torch.zeros(8)])
    for _ in range(2_000_000):  # a thread of the group has a tensor of Python's to drop, and wants the GIL
        pass
    del group, engine
print("ended")
"""


def test_an_engine_that_outlives_its_world_ends() -> None:
    command = [sys.executable, "-c", OUTLIVES_ITS_WORLD]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    assert done.stdout == "ended\n", done.stderr
