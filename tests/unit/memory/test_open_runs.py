"""Runs are arranged in one thread while another closes those that are recorded."""

import pytest

from tests.support.memories import batch, explicit_memory
from tpnet_dist.memory import open_runs


def test_a_run_is_found_though_the_one_before_it_is_closed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = explicit_memory(4, "decay", 0.1)

    class Watched(open_runs._OpenRun):
        """Closes the first run when the other thread first looks at one."""

        def __getattribute__(self, name: str) -> object:
            if name == "plan" and len(memory.runs) == 2:
                memory.runs.close_first()
            return super().__getattribute__(name)

    first = memory.plan([batch((0, 1, 1.0))])
    memory.runs.arrange(first)
    second = memory.plan([batch((1, 2, 2.0))])
    memory.runs._open = [Watched(run.plan, run.is_arranged) for run in memory.runs._open]
    memory.runs.arrange(second)
    assert memory.runs.is_first(second)
