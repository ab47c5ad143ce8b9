"""SIGTERM, SIGINT and SIGHUP as requests to stop: finish the step, save, leave. A second one ends at once."""

import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SECONDS_OF_ONE_REQUEST = 2.0
"""A scheduler may signal the launcher and the ranks, and the launcher passes it on: that is one request."""


def in_main_thread() -> bool:
    """Return whether this is the main thread; Python lets no other set handlers of signals."""
    return threading.current_thread() is threading.main_thread()


def ignore_signals() -> None:
    """Ignore all stop signals; for the last seconds of a process."""
    for number in SIGNALS if in_main_thread() else ():
        signal.signal(number, signal.SIG_IGN)


class StopRequested(Exception):
    """Raised on every rank after the same step, or the same batch of an evaluation."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(f"stopped by {number.name}")
        self.number = number


@dataclass
class StopRequest:
    """Holds whether this rank was asked to stop; the others may not know."""

    has_peers: bool = False
    """Whether there are other ranks. Then a signal is noted at once but obeyed later, also before anybody
    asks: it may have come because another rank died, which is to be said instead."""
    number: int = 0
    """The number of the signal that came; 0 if none came."""
    is_polled: bool = False
    """Whether training or evaluation has begun to ask for it."""
    _came_at: float = 0.0
    _bell: socket.socket | None = None
    """Rings when a signal comes, also while the main thread is where Python's handlers have to wait."""
    _has_rung: bool = False

    def seconds_unpolled(self) -> float:
        """Return how long ago the signal came, while nobody asks for it: a run that starts has nothing to
        save."""
        return time.monotonic() - self._came_at if self.number and not self.is_polled else 0.0

    def was_signalled(self) -> bool:
        """Return whether a signal came; another thread asks, as the main one may hang in a library."""
        bell = self._bell
        if bell is not None and not self._has_rung:
            with suppress(OSError):  # it has not rung, or was just taken down
                self._has_rung = any(number in SIGNALS for number in bell.recv(64))
        return self._has_rung

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Turn signals into requests to stop; those that are ignored (`nohup`) stay so.

        This holds after an error too, which ends the process: torchrun signals the ranks that are left when
        one dies, and these have something better to say than that they were signalled. Outside the main
        thread signals keep doing what they did.
        """
        if not in_main_thread():
            yield
            return
        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        # None: a library in C hears it, and Python could not give it back
        before = {number: each for number, each in handlers.items() if each not in (signal.SIG_IGN, None)}
        for number in before:
            signal.signal(number, lambda number, frame: self._hear(number, frame, before))
        with self._ringing():
            yield
        for number, handler in before.items():
            signal.signal(number, handler)

    @contextmanager
    def _ringing(self) -> Iterator[None]:
        """Let signals ring the bell; whatever happens, the bell is taken down: its number may soon be another
        file's."""
        bell, rung = socket.socketpair()
        with bell, rung:
            for end in (bell, rung):
                end.setblocking(False)
            before = signal.set_wakeup_fd(rung.fileno(), warn_on_full_buffer=False)
            self._bell = bell
            try:
                yield
            finally:
                self._bell = None
                signal.set_wakeup_fd(before)

    def _hear(self, number: int, frame: FrameType | None, before: dict[signal.Signals, Any]) -> None:
        if not self.number and (self.has_peers or self.is_polled):
            self.number, self._came_at = number, time.monotonic()
        elif time.monotonic() - self._came_at > SECONDS_OF_ONE_REQUEST:
            _obey(number, frame, before[signal.Signals(number)])


def _obey(number: int, frame: FrameType | None, handler: Any) -> None:  # noqa: ANN401 — as `signal` has it
    """Do what a signal did before this program took it."""
    if handler is signal.SIG_DFL:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    else:
        handler(number, frame)
