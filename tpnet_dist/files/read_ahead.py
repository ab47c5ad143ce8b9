"""Run an iterator ahead of its consumer in a background thread."""

import atexit
import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True)
class _Raised:
    error: BaseException


_END = object()
_running: dict[threading.Thread, threading.Event] = {}


def read_ahead(items: Iterable[Item], depth: int, *, fill_on_exit: bool = False) -> Iterator[Item]:
    """Yield `items` in order while a thread prepares up to `depth` of them; errors surface in order too.

    `fill_on_exit`: for items that ranks make together. A thread that stopped wherever it is when its consumer
    leaves would stop at another item on each rank, and those that went further would wait in a collective for
    the others. So it is first let go as far as it can, which is the same on all ranks.
    """
    if depth < 1:
        yield from items
        return
    ready: queue.Queue[object] = queue.Queue(maxsize=depth)
    abandoned = threading.Event()
    progress, taken = _Progress(), 0
    args = (progress.count(items), ready, abandoned)
    thread = threading.Thread(target=_produce, args=args, daemon=True)
    thread.start()
    _running[thread] = abandoned
    try:
        while (item := ready.get()) is not _END:
            if isinstance(item, _Raised):
                raise item.error
            taken += 1
            yield item  # type: ignore[misc]  # the queue carries items and the two marks above
    finally:
        if fill_on_exit:
            # the queue's items and the one that waits for room: from there it cannot go on
            progress.wait_for(taken + depth + 1)
        _end(thread)


class _Progress:
    """Counts the items that the thread has prepared."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._done = 0
        self._is_over = False

    def count(self, items: Iterable[Item]) -> Iterator[Item]:
        try:
            for item in items:
                with self._changed:
                    self._done += 1
                    self._changed.notify_all()
                yield item
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        """Wait until so many items are done, or there are no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self._done >= count)


def _end(thread: threading.Thread) -> None:
    abandoned = _running.pop(thread, None)
    # at the end of the process all threads are ended before the readers that were left open
    if abandoned is not None:
        abandoned.set()
        thread.join()


@atexit.register
def _end_all() -> None:
    """End all threads: a process that stops in mid-stream must not leave while a thread is inside a
    library."""
    for thread in list(_running):
        _end(thread)


def _produce(items: Iterable[Item], ready: "queue.Queue[object]", abandoned: threading.Event) -> None:
    try:
        for item in items:
            if not _put(ready, item, abandoned):
                return
        _put(ready, _END, abandoned)
    except BaseException as error:
        _put(ready, _Raised(error), abandoned)


def _put(ready: "queue.Queue[object]", item: object, abandoned: threading.Event) -> bool:
    """Wait for room, but not for a consumer that has gone."""
    while not abandoned.is_set():
        try:
            ready.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False
