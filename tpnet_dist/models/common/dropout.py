"""Dropout that belongs to an event, not to a running generator.

Each event has a key, made of (seed, epoch, event). What is dropped in scoring the event follows from its key
and the order of the model's layers alone: not from which rank scores it, in which company, or what was drawn
before. So any number of ranks, any cut into parts and any restart drop the same.

One random byte decides on one value, so rates are multiples of 1/256 (0.1 becomes 26/256), and kept values
are scaled by exactly the inverse of the rate of keeping. On the host the bytes come from one SFC64 stream per
event: 11 ms for the 36 million values of a step of 200 events, where torch's own draws take 350 ms. Elsewhere
they come from SplitMix64 of a counter, in torch's integer arithmetic; host and device hence drop differently.

Values have three axes: tokens or hidden ones, the Z sequences of the B events, channels or hidden ones. With
`events_first` they have any, of which the first has all that belongs to an event one after another.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from tpnet_dist.keyed_random import SampleKey, mix_in, state_of, words_of
from tpnet_dist.models.link_batch import LinkBatch

MAX_RATE = 0.9


def event_keys(seed: int, epoch: int, events_B: Tensor) -> Tensor:
    """Keys for the events of these numbers: int64, spread over all 64 bits."""
    return state_of(SampleKey(seed, epoch), events_B)


class Dropout:
    """Keeps everything: what scoring uses."""

    keeps_all = True
    scale = 1.0

    def drop_(self, values: Tensor) -> Tensor:
        return values

    def dropped(self, like: Tensor, width: int) -> Tensor | None:
        """1 for each of `width` values per token that is dropped, else 0, in the dtype of `like`; None if all
        are kept."""
        return None

    def kept(self, like: Tensor, shape: tuple[int, ...]) -> Tensor | None:
        """1 for each of so many values that is kept, else 0, in the dtype of `like`; None if all are."""
        return None

    def add(self, residual: Tensor, values: Tensor) -> Tensor:
        return residual + values


class EventDropout(Dropout):
    """Drops values by the keys of B events; every call draws the next masks.

    Kept values are not scaled: whoever makes or takes them multiplies its weights by `scale` instead, which
    costs nothing.
    """

    keeps_all = False

    def __init__(
        self, keys_B: Tensor, rate: float, *, events_first: bool = False, counted: bool = False
    ) -> None:
        """`counted`: bytes come from a counter on the host too, which is faster for thousands of keys."""
        assert 0 < rate <= MAX_RATE, rate
        self._events_first = events_first
        self._threshold = max(1, round(256 * rate))
        self.scale = 256 / (256 - self._threshold)
        self._num_events = len(keys_B)
        on_host = keys_B.device.type == "cpu" and not counted
        self._bytes: _Bytes = HostBytes(keys_B) if on_host else DeviceBytes(keys_B)

    def drop_(self, values: Tensor) -> Tensor:
        """In place."""
        return values.mul_(self._keep_mask(values))

    def dropped(self, like: Tensor, width: int) -> Tensor:
        mask = like.new_empty(*like.shape[:-1], width)
        return self._fill(mask, lambda drawn: drawn.lt_(self._threshold))

    def kept(self, like: Tensor, shape: tuple[int, ...]) -> Tensor:
        return self._fill(like.new_empty(shape), lambda drawn: drawn.ge_(self._threshold))

    def add(self, residual: Tensor, values: Tensor) -> Tensor:
        """residual + what is kept of the values, in one pass."""
        total: Tensor = _AddKept.apply(residual, values, self._keep_mask(values))  # type: ignore[no-untyped-call]
        return total

    def _keep_mask(self, values: Tensor) -> Tensor:
        """1 or 0 in the dtype of the values; never a bool, which torch reads seven times as slowly."""
        return self.kept(values, tuple(values.shape))

    def _fill(self, mask: Tensor, decide: Callable[[Tensor], Tensor]) -> Tensor:
        """What is decided on the next bytes of each event."""
        if self._events_first:
            if mask.numel():
                mask_of_B = mask.view(self._num_events, -1)
                mask_of_B.copy_(decide(self._bytes.draw(mask_of_B.shape[1])))
            return mask
        rows, num_sequences, width = mask.shape
        if num_sequences:
            num_events, per_event = self._num_events, num_sequences // self._num_events
            decided = decide(self._bytes.draw(rows * per_event * width))
            by_event = decided.view(num_events, rows, per_event, width)
            mask.view(rows, num_events, per_event, width).copy_(by_event.transpose(0, 1))
        return mask


def dropout_for(batch: LinkBatch, rate: float, *, training: bool, events_first: bool = False) -> Dropout:
    """Of a model in training; keyed by events, or by torch's generator where the batch has no keys."""
    if not training or rate == 0:
        return Dropout()
    keys_B = batch.dropout_keys_B
    if keys_B is None:
        keys_B = torch.randint(2**63 - 1, (len(batch),), device=batch.ends_BS.device)
    return EventDropout(keys_B, rate, events_first=events_first)


def row_dropout_for(keys_V: Tensor | None, like: Tensor, rate: float, *, training: bool) -> Dropout:
    """Of rows of a hop, as many as `like` has, each with a key; values have them as their first axis."""
    if not training or rate == 0:
        return Dropout()
    if keys_V is None:
        keys_V = torch.randint(2**63 - 1, (len(like),), device=like.device)
    return EventDropout(keys_V, rate, events_first=True, counted=True)


class _AddKept(torch.autograd.Function):
    """addcmul, whose own backward pass multiplies everything by 1 once more."""

    @staticmethod
    def forward(ctx: FunctionCtx, residual: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        ctx.save_for_backward(mask)
        return torch.addcmul(residual, values, mask)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (mask,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return gradient, gradient * mask, None


class _Bytes(Protocol):
    def draw(self, count: int) -> Tensor:
        """The next `count` random bytes of each event, (B, count); the caller may change them."""


class HostBytes:
    """One generator per event, read on from call to call."""

    def __init__(self, keys_B: Tensor) -> None:
        self._streams = [np.random.SFC64(key % 2**64) for key in keys_B.tolist()]

    def draw(self, count: int) -> Tensor:
        words = np.empty((len(self._streams), -(-count // 8)), dtype=np.uint64)
        for row, stream in zip(words, self._streams, strict=True):
            row[:] = stream.random_raw(len(row))
        return torch.from_numpy(words.view(np.uint8))[:, :count].contiguous()


class DeviceBytes:
    """The same in torch: word w of call c of an event is a hash of (key, c, w)."""

    def __init__(self, keys_B: Tensor) -> None:
        self._keys_B, self._calls = keys_B, 0

    def draw(self, count: int) -> Tensor:
        self._calls += 1
        words = words_of(mix_in(self._keys_B, self._calls), -(-count // 8))
        return words.view(torch.uint8)[:, :count].contiguous()
