"""Signals are noted where another thread can see them, and nothing of that stays behind."""

import signal
import subprocess
import sys
import threading

import pytest

from tests.support.command_line import ROOT
from tpnet_dist.distributed.stop_request import StopRequest


def wakeup_file() -> int:
    number = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(number)
    return number


def test_a_signal_is_noted_and_rings() -> None:
    stop = StopRequest(has_peers=True)
    with stop.listening():
        assert not stop.was_signalled()
        # not SIGHUP, which `nohup` ignores; to this thread, so that it has come at once
        signal.raise_signal(signal.SIGTERM)
        assert stop.was_signalled()
    assert stop.number == signal.SIGTERM
    assert stop.was_signalled()


def test_after_an_error_no_file_is_rung() -> None:
    before = wakeup_file()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    stop = StopRequest(has_peers=True)
    with pytest.raises(ValueError, match="broken"), stop.listening():
        assert wakeup_file() != before
        raise ValueError("broken")
    assert wakeup_file() == before
    assert not stop.was_signalled()
    for number, handler in handlers.items():  # which the end of a process keeps as they were
        signal.signal(number, handler)


def test_other_threads_listen_to_nothing() -> None:
    stop, handlers = StopRequest(), []

    def listen() -> None:
        with stop.listening():
            handlers.append(signal.getsignal(signal.SIGINT))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert handlers == [before]


def test_before_anybody_asks_a_signal_does_what_it_did_before() -> None:
    """Also where that was the system's own doing, as SIGTERM's is in a plain script."""
    code = (
        "import signal\n"
        "from tpnet_dist.distributed.stop_request import StopRequest\n"
        "with StopRequest().listening():\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGTERM
