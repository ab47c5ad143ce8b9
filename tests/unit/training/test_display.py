"""Lines where there is no terminal: speed and time left of this process, not of one before it."""

import pytest

from tpnet_dist.files import progress as display
from tpnet_dist.files.progress import LineDisplay


def test_events_of_an_earlier_process_do_not_count_as_speed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: clock[0])
    lines = LineDisplay()
    with lines.stage("epoch 1", 1000, done=500):
        clock[0] = 20.0
        lines.advance(100, "loss 0.5")
    assert capsys.readouterr().err == "epoch 1: 60%, 5 events/s, 80 s left, loss 0.5\n"
