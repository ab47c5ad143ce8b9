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


def read_ahead(items: Iterable[Item], depth: int) -> Iterator[Item]:
    """Yield `items` in order while a thread prepares up to `depth` of them; errors surface in order too."""
    if depth < 1:
        yield from items
        return
    ready: queue.Queue[object] = queue.Queue(maxsize=depth)
    abandoned = threading.Event()
    thread = threading.Thread(target=_produce, args=(items, ready, abandoned), daemon=True)
    thread.start()
    _running[thread] = abandoned
    try:
        while (item := ready.get()) is not _END:
            if isinstance(item, _Raised):
                raise item.error
            yield item  # type: ignore[misc]  # the queue carries items and the two marks above
    finally:
        _end(thread)


def _end(thread: threading.Thread) -> None:
    abandoned = _running.pop(thread, None)
    # at the end of the process all threads are ended before the readers that were left open
    if abandoned is not None:
        abandoned.set()
        thread.join()


@atexit.register
def _end_all() -> None:
    """A process that stops in mid-stream must not leave while a thread is inside a library."""
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
