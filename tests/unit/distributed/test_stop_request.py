"""Signals are noted where another thread can see them, and nothing of that stays behind."""

import signal

import pytest

from tpnet_dist.distributed.stop_request import StopRequest


def wakeup_file() -> int:
    number = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(number)
    return number


def test_a_signal_is_noted_and_rings() -> None:
    stop = StopRequest(has_company=True)
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
    stop = StopRequest(has_company=True)
    with pytest.raises(ValueError, match="broken"), stop.listening():
        assert wakeup_file() != before
        raise ValueError("broken")
    assert wakeup_file() == before
    assert not stop.was_signalled()
    for number, handler in handlers.items():  # which the end of a process keeps as they were
        signal.signal(number, handler)
