"""What tests of several folders share."""

import signal
import sys
from collections.abc import Callable, Iterator

import pytest
import torch

from tests.rank_pool import RankPools

Refused = Callable[..., str]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tensors of tests are small: a second thread brings nothing, and waits on a busy machine."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def rank_pools() -> Iterator[RankPools]:
    """`rank_pools[4].run(function, …)` runs it on four gloo ranks, which later tests use again."""
    pools = RankPools()
    yield pools
    pools.close()


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Refused]:
    """`refused(main, *words)` is the one sentence of a command that ends with exit code 2.

    In this process: another takes seconds to start.
    """
    monkeypatch.setattr("tpnet_dist.errors.leave", sys.exit)
    interrupt = signal.getsignal(signal.SIGINT)

    def sentence(main: Callable[[], None], *words: object) -> str:
        monkeypatch.setattr(sys, "argv", ["command", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        [line] = [line for line in capfd.readouterr().err.splitlines() if line.strip()]
        assert stopped.value.code == 2, line
        program, said = line.split(": error: ")
        assert program == f"python -m {main.__module__}"
        return said

    yield sentence
    # a command that fails is about to end, and keeps its own handler
    signal.signal(signal.SIGINT, interrupt)
