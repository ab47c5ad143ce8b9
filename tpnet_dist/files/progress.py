"""Progress of long work on standard error: one bar on a terminal, a line every 10 s elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tpnet_dist.errors import printable

SECONDS_BETWEEN_LINES = 10.0


class Display:
    """Shows nothing: the display of every rank but the first."""

    @contextmanager
    def stage(self, title: str, total: int, *, unit: str = "events", done: int = 0) -> Iterator[None]:
        """Show progress from `done` to `total` while the block runs.

        `unit`: what `advance` counts. `done`: what an earlier process did already; it is no part of the rate.
        """
        yield

    def advance(self, count: int, note: str = "", *, position: int | None = None) -> None:
        """Add `count` units; `position` is how much of the total is done, where the total is not in units."""

    def say(self, line: str) -> None: ...


@dataclass
class _Stage:
    """The progress of a stage, and how fast it goes."""

    title: str
    total: int
    unit: str
    first_position: int
    position: int = field(init=False)
    count: int = 0
    started: float = field(default_factory=lambda: time.monotonic())

    def __post_init__(self) -> None:
        self.position = self.first_position

    def advance(self, count: int, position: int | None) -> None:
        self.count += count
        self.position = self.position + count if position is None else position

    @property
    def rate(self) -> str:
        rate = self.count / self._seconds
        return f"{rate:,.{int(rate < 1)}f} {self.unit}/s"

    @property
    def seconds_left(self) -> float:
        return (self.total - self.position) * self._seconds / max(self.position - self.first_position, 1e-9)

    @property
    def _seconds(self) -> float:
        return max(time.monotonic() - self.started, 1e-9)


class LineDisplay(Display):
    """Prints a line now and then."""

    def __init__(self) -> None:
        self._stage: _Stage | None = None
        self._last_line = time.monotonic()

    @contextmanager
    def stage(self, title: str, total: int, *, unit: str = "events", done: int = 0) -> Iterator[None]:
        self._stage = _Stage(title, total, unit, done)
        yield

    def advance(self, count: int, note: str = "", *, position: int | None = None) -> None:
        stage = self._stage
        assert stage is not None
        stage.advance(count, position)
        now = time.monotonic()
        if stage.position and now - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = now
            share = stage.position / max(stage.total, 1)
            end = f", {note}" if note else ""
            self.say(f"{stage.title}: {share:.0%}, {stage.rate}, {stage.seconds_left:,.0f} s left{end}")

    def say(self, line: str) -> None:
        print(printable(line), file=sys.stderr, flush=True)


class BarDisplay(Display):
    """Draws one bar, anew for each stage, and removes it at the stage's end."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task: tuple[TaskID, _Stage] | None = None

    @contextmanager
    def stage(self, title: str, total: int, *, unit: str = "events", done: int = 0) -> Iterator[None]:
        with self._progress:
            task = self._progress.add_task(title, total=total, completed=done, rate="", note="")
            self._task = task, _Stage(title, total, unit, done)
            try:
                yield
            finally:
                self._progress.remove_task(task)

    def advance(self, count: int, note: str = "", *, position: int | None = None) -> None:
        assert self._task is not None
        task, stage = self._task
        stage.advance(count, position)
        self._progress.update(task, completed=stage.position, rate=stage.rate, note=note)

    def say(self, line: str) -> None:
        self._progress.console.print(printable(line), highlight=False, markup=False)


def display_for(rank: int) -> Display:
    if rank:
        return Display()
    console = Console(stderr=True)
    return BarDisplay(console) if console.is_terminal else LineDisplay()
