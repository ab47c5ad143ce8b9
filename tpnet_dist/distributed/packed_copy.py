"""Tensors of the host that go to a device in one copy, for which nobody waits.

They are packed into one buffer that the device can read by itself (pinned), which may be done ahead and in
another thread; the copy is started by whoever works with the device.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from tpnet_dist.files.read_ahead import read_ahead

Item = TypeVar("Item")

_ALIGNMENT = 16


@dataclass(frozen=True)
class _Part:
    start: int
    dtype: torch.dtype
    shape: torch.Size

    def of(self, buffer: Tensor) -> Tensor:
        stop = self.start + self.shape.numel() * self.dtype.itemsize
        return buffer[self.start : stop].view(self.dtype).view(self.shape)


@runtime_checkable
class Sendable(Protocol):
    """Something with tensors that go to the device."""

    def tensors(self) -> list[Tensor]: ...
    def at(self, tensors: Sequence[Tensor]) -> "Sendable":
        """Return this object with its tensors replaced by these copies, which may lie on another device."""


class PackedCopy:
    """Some tensors on their way to a device; on the host they stay where they are."""

    def __init__(self, tensors: Sequence[Tensor], device: torch.device) -> None:
        self._device, self._parts = device, list[_Part]()
        if device.type == "cpu":
            self._on_host = list(tensors)
            return
        size = 0
        for tensor in tensors:
            self._parts.append(_Part(size, tensor.dtype, tensor.shape))
            size += -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT
        self._buffer = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        for part, tensor in zip(self._parts, tensors, strict=True):
            part.of(self._buffer).copy_(tensor)

    def arrive(self) -> list[Tensor]:
        """Start the copy; what the current stream does next finds the tensors there."""
        if self._device.type == "cpu":
            return self._on_host
        arrived = self._buffer.to(self._device, non_blocking=True)
        return [part.of(arrived) for part in self._parts]


class Parcel:
    """Several things that go to a device in one copy."""

    def __init__(self, things: Sequence[Sendable], device: torch.device) -> None:
        tensors = [thing.tensors() for thing in things]
        self._things, self._sizes = things, [len(each) for each in tensors]
        self._copy = PackedCopy([tensor for each in tensors for tensor in each], device)

    def arrive(self) -> list[Any]:
        arrived = iter(self._copy.arrive())
        return [
            thing.at([next(arrived) for _ in range(size)])
            for thing, size in zip(self._things, self._sizes, strict=True)
        ]


def packed_ahead(items: Iterable[Item], device: torch.device, depth: int) -> Iterator[Item]:
    """Yield items that are packed for a device up to `depth` ahead, by a thread that ends at the same item on
    all ranks; if 0, by whoever takes them."""
    return read_ahead(_by_thread_of(device, items) if depth else items, depth, fill_on_exit=True)


def _by_thread_of(device: torch.device, items: Iterable[Item]) -> Iterator[Item]:
    # a thread that pins memory has a context, on the first GPU unless it says otherwise
    torch.cuda.set_device(device)
    yield from items
