"""What is decided on the host goes to the model's device, and nobody waits for it."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from torch import Tensor

Thing = TypeVar("Thing")

ON_HOST = MappingProxyType({"on_host": True})
"""Metadata of a field that stays on the host: what is computed is chosen by it."""


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Return it on the device. A copy from memory that a GPU cannot read by itself would wait until the GPU
    has done all it was told to, so it goes through memory that it can."""
    if tensor.device == device:
        return tensor
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def sent_tensors(thing: object) -> list[Tensor]:
    """Return the tensors of a dataclass that go to a device, also those of dataclasses and tuples in it."""
    if isinstance(thing, Tensor):
        return [thing]
    return [tensor for part in _sent_parts(thing).values() for tensor in sent_tensors(part)]


def with_sent_tensors(thing: Thing, tensors: Sequence[Tensor]) -> Thing:
    """Return it with these tensors in the place of `sent_tensors`."""
    there = iter(tensors)
    found: Thing = _replaced(thing, there)
    assert next(there, None) is None
    return found


def _replaced(thing: object, tensors: Iterator[Tensor]) -> Any:  # noqa: ANN401 — of the thing's type
    if isinstance(thing, Tensor):
        return next(tensors)
    whole: Any = thing
    parts = {name: _replaced(part, tensors) for name, part in _sent_parts(thing).items()}
    if type(thing) is tuple:
        return tuple(parts.values())
    return replace(whole, **parts) if parts else thing


def _sent_parts(thing: object) -> dict[str, Any]:
    """Return the parts of something that are sent with it, by name."""
    if type(thing) is tuple:
        return {str(number): part for number, part in enumerate(thing)}
    if not is_dataclass(thing):
        return {}
    sent_fields = [each for each in fields(thing) if not each.metadata.get("on_host")]
    return {each.name: getattr(thing, each.name) for each in sent_fields}
