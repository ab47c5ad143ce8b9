"""How training looks while it goes on: one bar on a terminal, plain lines elsewhere; one rank only."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 10.0


class Display:
    """Says nothing: what ranks other than the first have."""

    @contextmanager
    def stage(self, title: str, num_events: int, *, done: int = 0) -> Iterator[None]:
        """`done`: events of it that an earlier process went through; they are no part of the speed."""
        yield

    def advance(self, events: int, note: str = "") -> None: ...

    def say(self, line: str) -> None: ...


class LineDisplay(Display):
    """A line now and then."""

    def __init__(self) -> None:
        self._title, self._total, self._done, self._done_before = "", 0, 0, 0
        self._started = self._last_line = time.monotonic()

    @contextmanager
    def stage(self, title: str, num_events: int, *, done: int = 0) -> Iterator[None]:
        self._title, self._total, self._done = title, num_events, done
        self._done_before = done
        self._started = time.monotonic()
        yield

    def advance(self, events: int, note: str = "") -> None:
        self._done += events
        now = time.monotonic()
        if self._done and now - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = now
            rate = (self._done - self._done_before) / max(now - self._started, 1e-9)
            left = (self._total - self._done) / max(rate, 1e-9)
            share = self._done / max(self._total, 1)
            end = f", {note}" if note else ""
            self.say(f"{self._title}: {share:.0%}, {rate:,.0f} events/s, {left:.0f} s left{end}")

    def say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class BarDisplay(Display):
    """One bar, rewritten for each stage."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._done, self._done_before, self._started = 0, 0, 0.0

    @contextmanager
    def stage(self, title: str, num_events: int, *, done: int = 0) -> Iterator[None]:
        self._done, self._done_before, self._started = done, done, time.monotonic()
        with self._progress:
            self._task = self._progress.add_task(title, total=num_events, completed=done, rate="", note="")
            try:
                yield
            finally:
                self._progress.remove_task(self._task)

    def advance(self, events: int, note: str = "") -> None:
        assert self._task is not None
        self._done += events
        now_done = self._done - self._done_before
        rate = f"{now_done / max(time.monotonic() - self._started, 1e-9):,.0f} events/s"
        self._progress.update(self._task, completed=self._done, rate=rate, note=note)

    def say(self, line: str) -> None:
        self._progress.console.print(line, highlight=False)


def display_for(rank: int) -> Display:
    if rank:
        return Display()
    console = Console(stderr=True)
    return BarDisplay(console) if console.is_terminal else LineDisplay()
