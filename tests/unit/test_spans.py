"""Spans are timed on the GPU in the thread that launches its work."""

import threading

import pytest
import torch

from tpnet_dist.spans import DeviceTimes, Span, time_spans


class FakeEvent:
    """Tells a second between each two that are recorded."""

    recorded = 0

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        FakeEvent.recorded += 1
        self.at = 1000.0 * FakeEvent.recorded

    def elapsed_time(self, later: "FakeEvent") -> float:
        return later.at - self.at


def pass_through(*names: str) -> None:
    for name in names:
        with Span(name):
            pass


def test_spans_of_the_launching_thread_are_timed_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    times = DeviceTimes(("borrow", "read"))
    time_spans(times)
    try:
        pass_through("borrow", "plan", "borrow")
        thread = threading.Thread(target=pass_through, args=("borrow", "read"))
        thread.start()
        thread.join()
    finally:
        time_spans(None)
    assert times.seconds() == {"borrow": 2.0, "read": 0.0}
