"""One progress bar on a terminal, plain lines elsewhere; always on standard error."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

_SECONDS_BETWEEN_LINES = 10.0


class Stage:
    """One stretch of work: `advance` by events, `move_to` by whatever the bar's total counts."""

    def __init__(self, title: str, total: float, bar: Progress | None) -> None:
        self.title, self.total, self.events = title, total, 0
        self._position = 0.0
        self._started = self._last_line = time.monotonic()
        self._bar = bar
        self._task = bar.add_task(title, total=total, rate="") if bar else None

    @property
    def rate(self) -> float:
        return self.events / max(time.monotonic() - self._started, 1e-9)

    def count(self, events: int) -> None:
        self.events += events

    def advance(self, events: int) -> None:
        """Count events where the total is events too."""
        self.count(events)
        self.move_to(self._position + events)

    def move_to(self, position: float) -> None:
        self._position = position
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=position, rate=f"{self.rate:,.0f} rows/s")
        elif time.monotonic() - self._last_line > _SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            share = position / self.total if self.total else 1.0
            print(
                f"{self.title}: {share:.0%}, {self.events:,} rows, {self.rate:,.0f} rows/s", file=sys.stderr
            )


class ProgressDisplay:
    """Makes stages that share one display."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar

    def stage(self, title: str, total: float) -> Stage:
        return Stage(title, total, self._bar)


class _RateColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(str(task.fields.get("rate", "")), style="cyan")


@contextmanager
def progress_display() -> Iterator[ProgressDisplay]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield ProgressDisplay(None)
        return
    columns = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%")]
    with Progress(*columns, _RateColumn(), TimeRemainingColumn(), console=console) as bar:
        yield ProgressDisplay(bar)
