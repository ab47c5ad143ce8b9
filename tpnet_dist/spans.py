"""Named spans of time: in traces of torch's profiler, in Nsight as NVTX ranges, and timed on the GPU itself.

Without a profiler and without CUDA a span costs next to nothing.
"""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ContextDecorator, nullcontext
from types import TracebackType
from typing import Protocol

import torch
import torch.autograd.profiler as profiler

NEIGHBORS, RELATIVE_ENCODING = "neighbors", "relative encoding"
HAS_NVTX = torch.version.cuda is not None


class SpanTimes(Protocol):
    """Times spans."""

    def begin(self, name: str) -> Callable[[], None]:
        """Call what it returns at the end of the span."""


class DeviceTimes:
    """Events on the GPU around spans of these names, each in the stream that its span is at work in. Spans of
    other threads than the one that makes this launch nothing there, so they are not timed."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names, self._launcher = names, threading.get_ident()
        self._pairs: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []

    def begin(self, name: str) -> Callable[[], None]:
        if name not in self._names or threading.get_ident() != self._launcher:
            return _nothing
        started, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        started.record()

        def end() -> None:
            ended.record()
            self._pairs.append((name, started, ended))

        return end

    def seconds(self) -> dict[str, float]:
        """Return seconds by name, from the first operation of a span on the GPU to its last; waits for
        them."""
        torch.cuda.synchronize()
        total = dict.fromkeys(self._names, 0.0)
        for name, started, ended in self._pairs:
            total[name] += started.elapsed_time(ended) / 1e3
        return total


class _Timing:
    """The times that spans of this process are added to, if they are timed."""

    times: SpanTimes | None = None


def time_spans(times: SpanTimes | None) -> None:
    """Have spans timed from now on; None: no longer."""
    _Timing.times = times


class Span(ContextDecorator):
    """One span; a class, since a generator costs as much as a small tensor operation."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._record: profiler.record_function | None = None
        self._end: Callable[[], None] = _nothing

    def _recreate_cm(self) -> "Span":
        """Return a new span: a decorated function may run in two threads at once."""
        return Span(self.name)

    def __enter__(self) -> None:
        if HAS_NVTX:
            torch.cuda.nvtx.range_push(self.name)  # type: ignore[no-untyped-call]
        if profiler._is_profiler_enabled:
            self._record = profiler.record_function(self.name)
            self._record.__enter__()  # type: ignore[no-untyped-call]
        if _Timing.times is not None:
            self._end = _Timing.times.begin(self.name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        if self._record is not None:
            self._record.__exit__(kind, error, trace)
        if HAS_NVTX:
            torch.cuda.nvtx.range_pop()  # type: ignore[no-untyped-call]


def relative_encoding() -> AbstractContextManager[None]:
    """Return the span of what a model computes of two nodes in view of one another; none in compiled code."""
    return nullcontext() if torch.compiler.is_compiling() else Span(RELATIVE_ENCODING)


def _nothing() -> None:
    """Do nothing at the end of a span that nobody times."""
