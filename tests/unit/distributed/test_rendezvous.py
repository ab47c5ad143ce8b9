"""Ranks of one start meet in a store that earlier ones have used, whatever these left behind."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

from tests.support.sentences import refused
from tpnet_dist.distributed.rendezvous import agree_on_start
from tpnet_dist.errors import UnmetError, errors_for_people

TIMEOUT = timedelta(seconds=20)
SHORT = timedelta(seconds=0.3)


class Launch:
    """A store that outlives its ranks, which are threads here, each with a connection of its own."""

    def __init__(self) -> None:
        self.server = TCPStore("127.0.0.1", 0, None, True, TIMEOUT, wait_for_workers=False)

    def connect(self) -> TCPStore:
        return TCPStore("127.0.0.1", self.server.port, None, False, TIMEOUT)

    def meet(self, num_ranks: int, *, late: int | None = None) -> list[str]:
        """What each rank takes for the name of the start; one may come later than the others."""

        def join(rank: int) -> str:
            if rank == late:
                time.sleep(0.3)
            return agree_on_start(self.connect(), rank, num_ranks, TIMEOUT)

        with ThreadPoolExecutor(num_ranks) as threads:
            return list(threads.map(join, range(num_ranks)))


@pytest.fixture
def launch() -> Launch:
    return Launch()


@pytest.mark.parametrize("num_ranks", [1, 2, 5])
def test_all_ranks_of_a_start_get_one_name(launch: Launch, num_ranks: int) -> None:
    [name] = set(launch.meet(num_ranks))
    assert name


def test_each_start_has_a_name_of_its_own(launch: Launch) -> None:
    starts = [launch.meet(count, late=late) for count, late in ((3, 0), (3, 1), (2, None), (4, 3), (1, None))]
    names = [set(start) for start in starts]
    assert all(len(each) == 1 for each in names)
    assert len(set.union(*names)) == len(starts)


def test_questions_of_dead_ranks_do_no_harm(launch: Launch) -> None:
    # the first rank never came: these asked in vain
    for rank in (1, 2):
        with refused(UnmetError):
            agree_on_start(launch.connect(), rank, 3, SHORT)
    # the last one dead, the first rank answers its question while the living one has yet to ask
    [name] = set(launch.meet(3, late=2))
    # the first rank dead, its answers remain
    with refused(UnmetError):
        agree_on_start(launch.connect(), 0, 3, SHORT)
    [other] = set(launch.meet(3, late=0))
    assert name != other


def test_who_does_not_come_is_named_within_the_timeout(launch: Launch) -> None:
    began = time.monotonic()
    with refused(UnmetError):
        agree_on_start(launch.connect(), 0, 3, SHORT)
    with refused(UnmetError):
        agree_on_start(launch.connect(), 1, 3, SHORT)
    assert time.monotonic() - began < 5


def test_a_signal_ends_the_wait(launch: Launch) -> None:
    class Heard(Exception):
        pass

    def hear(*_: object) -> None:
        raise Heard

    before = signal.signal(signal.SIGUSR1, hear)
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(Heard):
            agree_on_start(launch.connect(), 1, 2, TIMEOUT)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def test_other_keys_of_the_store_stay_as_they_are(launch: Launch) -> None:
    PrefixStore("launch", launch.server).set("ask-1", "what users say")
    launch.meet(2)
    assert PrefixStore("launch", launch.server).get("ask-1") == b"what users say"


def test_also_a_rank_that_is_else_quiet_says_that_it_met_nobody(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tpnet_dist.errors.leave", lambda code: codes.append(code))
    codes: list[int] = []
    with errors_for_people("train", debug=False, quiet=lambda: True):
        raise UnmetError("rank 0 did not come")
    assert codes == [2]
    assert capsys.readouterr().err == "train: error: rank 0 did not come\n"
