"""Streams and events that only order, and the search for uses of memory that nothing orders.

Everything is computed at once, so nothing goes wrong here; but each use of a tensor's memory is remembered
with its stream, and torch's own sanitizer says which uses an event put in order. What is found:

    race         a kernel reads what another stream writes, or writes what it uses, and no event lies between
    reuse        memory is freed while a stream still uses it that is not its own: `record_stream` is missing
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch.cuda._sanitizer import StreamSynchronizations

from tests.support.emulated_cuda.library import loaded
from tests.support.emulated_cuda.operation_log import LOG, caller

_here = threading.local()
_order = StreamSynchronizations()
_number = 0


class Stream:
    """`torch.cuda.Stream`."""

    _made = 0

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.stream_id, self.priority = Stream._made, priority
        index = torch.device(device or "cuda").index if not isinstance(device, int) else device
        self.device = torch.device("cuda", loaded().current_device() if index is None else index)
        Stream._made += 1
        with LOG.lock:
            _order.create_stream(self.stream_id)

    @property
    def cuda_stream(self) -> int:
        return self.stream_id

    def record_event(self, event: "Event | None" = None) -> "Event":
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event: "Event") -> None:
        event.wait(self)

    def wait_stream(self, other: "Stream") -> None:
        self.wait_event(other.record_event())

    def synchronize(self) -> None:
        LOG.wait("Stream.synchronize")
        with LOG.lock:
            _order.all_streams_wait_for_stream(self.stream_id)

    def query(self) -> bool:
        return True


class Event:
    """`torch.cuda.Event`."""

    _made = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        Event._made += 1
        self.event_id = Event._made
        with LOG.lock:
            _order.create_event(self.event_id)

    def record(self, stream: Stream | None = None) -> None:
        LOG.launched()
        with LOG.lock:
            _order.record_state(self.event_id, (stream or current_stream()).stream_id)

    def wait(self, stream: Stream | None = None) -> None:
        with LOG.lock:
            _order.stream_wait_for_event((stream or current_stream()).stream_id, self.event_id)

    def synchronize(self) -> None:
        LOG.wait("Event.synchronize")
        with LOG.lock:
            _order.all_streams_wait_for_event(self.event_id)

    def query(self) -> bool:
        return True

    def elapsed_time(self, later: "Event") -> float:
        return 1.0


DEFAULT = Stream(0)


def synchronize() -> None:
    """`torch.cuda.synchronize`: what comes later comes after all that was launched."""
    LOG.wait("torch.cuda.synchronize")
    with LOG.lock:
        _order.sync_all_streams()


def current_stream(device: Any = None) -> Stream:
    found: Stream = getattr(_here, "stream", DEFAULT)
    return found


class stream:  # noqa: N801 — torch's name
    """`torch.cuda.stream`."""

    def __init__(self, chosen: Stream | None) -> None:
        self._chosen = chosen

    def __enter__(self) -> None:
        self._before = current_stream()
        if self._chosen is not None:
            _here.stream = self._chosen

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        _here.stream = self._before


@dataclass
class Use:
    """Of memory by a kernel."""

    number: int
    stream: int
    what: str


@dataclass(eq=False)
class Block:
    """Memory of the device: tensors that share it share this."""

    home: int
    """The stream it was taken on, and is given to again."""
    written: Use | None = None
    read: dict[int, Use] = field(default_factory=dict)
    """Since it was written; the last on each stream."""
    recorded: set[int] = field(default_factory=set)

    def __del__(self) -> None:
        for use in self._uses():
            if not (use.stream in self.recorded or is_exempt(use.stream) or _is_before(use, self.home)):
                LOG.problem(f"reuse: memory is freed that stream {use.stream} still uses for {use.what}")

    def _uses(self) -> list[Use]:
        written = [] if self.written is None else [self.written]
        return [use for use in (*written, *self.read.values()) if use.stream != self.home]


_blocks: "WeakValueDictionary[int, Block]" = WeakValueDictionary()
_exempt: set[int] = set()
"""Streams of NCCL, which keeps what it works on."""


def exempt(of_nccl: Stream) -> None:
    _exempt.add(of_nccl.stream_id)


def is_exempt(stream_id: int) -> bool:
    return stream_id in _exempt


def block_of(inner: torch.Tensor) -> Block | None:
    """Of a tensor on the host that stands for one of the device; it must be kept as long as the tensor."""
    pointer = inner.untyped_storage().data_ptr()
    if not pointer:
        return None
    with LOG.lock:
        block = _blocks.get(pointer)
        if block is None:
            block = _blocks[pointer] = Block(current_stream().stream_id)
        return block


def _is_before(use: Use, stream_id: int) -> bool:
    return _order.is_ordered_after(stream_id, use.number, use.stream)


def note_kernel(
    name: str, read: Iterable[Block | None], written: Iterable[Block | None], on: Stream | None = None
) -> None:
    """A kernel is launched on the current stream; complains of uses that nothing orders."""
    global _number
    stream_id = (on or current_stream()).stream_id
    written_blocks = {id(block): block for block in written if block is not None}
    read_blocks = {id(block): block for block in read if block is not None}
    with LOG.lock:
        _number += 1
        _order.update_seq_num(stream_id, _number)
        use = Use(_number, stream_id, f"{name} at {caller()}")
        for key, block in read_blocks.items():
            if key not in written_blocks:
                _require_order([block.written], use)
                block.read[stream_id] = use
        for block in written_blocks.values():
            _require_order([block.written, *block.read.values()], use)
            block.written, block.read = use, {}


def _require_order(earlier: Iterable[Use | None], use: Use) -> None:
    for other in earlier:
        if other is not None and other.stream != use.stream and not _is_before(other, use.stream):
            LOG.problem(
                f"race: {use.what} on stream {use.stream} may overtake {other.what} on stream {other.stream}"
            )
