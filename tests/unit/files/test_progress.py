"""Progress of long work: its bar on a terminal, its lines elsewhere, and what counts for speed."""

import io

import pytest
from rich.console import Console

from tpnet_dist.files import progress
from tpnet_dist.files.progress import BarDisplay, Display, LineDisplay, display_for


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    return clock


def test_events_of_an_earlier_process_do_not_count_as_speed(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = LineDisplay()
    with lines.stage("epoch 1", 1000, done=500):
        clock[0] = 20.0
        lines.advance(100, "loss 0.5")
    assert capsys.readouterr().err == "epoch 1: 60%, 5 events/s, 80 s left, loss 0.5\n"


def test_a_position_in_bytes_gives_the_time_left_and_rows_the_rate(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = LineDisplay()
    with lines.stage("reading", 1_000_000, unit="rows"):
        clock[0] = 20.0
        lines.advance(3000, position=250_000)
    assert capsys.readouterr().err == "reading: 25%, 150 rows/s, 60 s left\n"


def test_lines_come_every_10_s_at_most(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    lines = LineDisplay()
    for title in ("reading", "writing"):
        with lines.stage(title, 60):
            for _ in range(60):
                clock[0] += 0.5
                lines.advance(1)
    assert len(capsys.readouterr().err.splitlines()) == 5


def test_a_terminal_gets_a_bar_with_percentage_rate_note_and_time_left() -> None:
    written = io.StringIO()
    bar = BarDisplay(Console(file=written, force_terminal=True, width=100))
    with bar.stage("epoch 1", 1000, done=500):
        bar.advance(100, "loss 0.5")
        shown = _shown(bar)
        assert all(part in shown for part in ("epoch 1", "60%", "events/s", "loss 0.5", "-:--:--")), shown
        bar.say("a line")
    assert "a line" in written.getvalue()


def test_each_stage_has_a_bar_of_its_own() -> None:
    bar = BarDisplay(Console(file=io.StringIO(), force_terminal=True, width=100))
    with bar.stage("reading", 10, unit="rows"):
        bar.advance(5)
    with bar.stage("writing", 10):
        bar.advance(1)
        assert "writing" in _shown(bar) and "reading" not in _shown(bar)


def test_ranks_but_the_first_show_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    display = display_for(rank=1)
    assert type(display) is Display
    with display.stage("epoch 1", 10):
        display.advance(5, "loss 0.5")
        display.say("a line")
    assert capsys.readouterr() == ("", "")


def _shown(bar: BarDisplay) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(bar._progress.get_renderable())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_rate_below_one_is_not_shown_as_none(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = LineDisplay()
    with lines.stage("ranking", 8, unit="sources"):
        clock[0] = 20.0
        lines.advance(4)
    assert capsys.readouterr().err == "ranking: 50%, 0.2 sources/s, 20 s left\n"
