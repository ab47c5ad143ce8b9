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

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from tpnet_dist.keyed_random import SampleKey, state_of, words_at
from tpnet_dist.models.common.host_forms import serves_host
from tpnet_dist.models.link_batch import LinkBatch

MAX_RATE = 0.9
CALLS_AHEAD = 16
"""The number of draws whose states are prepared on the host; a device makes those of further ones."""


def event_keys(seed: int, epoch: int, events_B: Tensor) -> Tensor:
    """Return keys for the events of these numbers: int64, spread over all 64 bits."""
    return state_of(SampleKey(seed, epoch), events_B)


def with_dropout_states(batch: LinkBatch) -> LinkBatch:
    """Return the batch with the states that its events' first draws go on from, as a device wants them."""
    keys_B = batch.dropout_keys_B
    return batch if keys_B is None else replace(batch, dropout_states_BM=_states_of(keys_B, 1, CALLS_AHEAD))


def _states_of(keys_B: Tensor, first: int, count: int) -> Tensor:
    """Return the states of `count` draws, of which the first has this number, counted from 1: (B, count)."""
    return words_at(keys_B[:, None], torch.arange(first, first + count, device=keys_B.device))


class MaskShape(NamedTuple):
    """A mask that a forward pass asks for: so many rows of so many values of every sequence."""

    rows: int
    width: int


class Dropout:
    """Keeps everything: what scoring uses."""

    keeps_all = True
    scale = 1.0

    def expect(self, masks: Sequence[MaskShape], num_sequences: int) -> None:
        """Hear, before the first mask, which ones will be asked for, in their order."""

    def drop_(self, values: Tensor) -> Tensor:
        """Drop values, in place where that saves a pass."""
        return values

    def dropped(self, like: Tensor, width: int) -> Tensor | None:
        """Return 1 for each of `width` values per token that is dropped, else 0, in the dtype of `like`; None
        if all are kept. For the host's `feed_forward`."""
        return None

    def kept(self, like: Tensor, shape: tuple[int, ...]) -> Tensor | None:
        """Return 1 for each of so many values that is kept, else 0, in the dtype of `like`; None if all
        are."""
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
        self,
        keys_B: Tensor,
        rate: float,
        *,
        events_first: bool = False,
        counted: bool = False,
        states_BM: Tensor | None = None,
    ) -> None:
        """`counted`: bytes come from a counter on the host too, which is faster for thousands of keys.
        `states_BM`: those of a device's first draws, if they are known."""
        assert 0 < rate <= MAX_RATE, rate
        self._events_first = events_first
        self._threshold = max(1, round(256 * rate))
        self.scale = 256 / (256 - self._threshold)
        self._num_events = len(keys_B)
        on_host = serves_host(keys_B) and not counted
        self._bytes: HostBytes | DeviceBytes = (
            HostBytes(keys_B) if on_host else DeviceBytes(keys_B, states_BM)
        )

    def drop_(self, values: Tensor) -> Tensor:
        return values.mul_(self._keep_mask(values))

    def dropped(self, like: Tensor, width: int) -> Tensor:
        mask = like.new_empty(*like.shape[:-1], width)
        return self._fill(mask, lambda drawn: drawn.lt_(self._threshold))

    def kept(self, like: Tensor, shape: tuple[int, ...]) -> Tensor:
        return self._fill(like.new_empty(shape), lambda drawn: drawn.ge_(self._threshold))

    def add(self, residual: Tensor, values: Tensor) -> Tensor:
        """Return residual + what is kept of the values, in one pass."""
        total: Tensor = _AddKept.apply(residual, values, self._keep_mask(values))  # type: ignore[no-untyped-call]
        return total

    def _keep_mask(self, values: Tensor) -> Tensor:
        """Return 1 or 0 in the dtype of the values; never a bool, which torch reads seven times as slowly."""
        return self.kept(values, tuple(values.shape))

    def _fill(self, mask: Tensor, decide: Callable[[Tensor], Tensor]) -> Tensor:
        """Fill a mask with what is decided on the next bytes of each event."""
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


class DeviceDropout(Dropout):
    """Drops by events like `EventDropout`, for the mixer where every operation has its price, on a GPU and in
    compiled code.

    All masks of a forward pass are drawn and decided at once, and are read where they were drawn.
    """

    keeps_all = False

    def __init__(self, keys_B: Tensor, rate: float, states_BM: Tensor | None = None) -> None:
        assert 0 < rate <= MAX_RATE, rate
        self._threshold = max(1, round(256 * rate))
        self.scale = 256 / (256 - self._threshold)
        self._num_events = len(keys_B)
        self._bytes = DeviceBytes(keys_B, states_BM)
        self._masks: list[Tensor] = []
        """The expected ones, the next one last."""

    def expect(self, masks: Sequence[MaskShape], num_sequences: int) -> None:
        num_events = self._num_events
        if num_events:
            per_event = num_sequences // num_events
            counts = tuple(mask.rows * per_event * mask.width for mask in masks)
            kept = self._bytes.draw_calls(counts).ge(self._threshold)
            by_call = kept.split_with_sizes(_in_whole_words(counts), dim=1)
            self._masks = [
                each[:, :count].view(num_events, mask.rows, per_event, mask.width).transpose(0, 1)
                for each, count, mask in zip(by_call, counts, masks, strict=True)
            ][::-1]

    def drop_(self, values: Tensor) -> Tensor:
        mask = self._keep_mask(values)
        return (values.view(mask.shape) * mask).view(values.shape)

    def add(self, residual: Tensor, values: Tensor) -> Tensor:
        mask = self._keep_mask(values)
        total = torch.addcmul(residual.view(mask.shape), values.view(mask.shape), mask)
        return total.view(values.shape)

    def _keep_mask(self, values: Tensor) -> Tensor:
        """Return the next mask, of shape (rows, B, sequences of an event, width), as the bytes were drawn."""
        if not self._num_events:
            return torch.ones_like(values, dtype=torch.bool)
        return self._masks.pop()


def dropout_for(batch: LinkBatch, rate: float, *, training: bool, events_first: bool = False) -> Dropout:
    """Return the dropout of a model in training, keyed by events, or by torch's generator where the batch has
    no keys; else one that keeps everything."""
    if not training or rate == 0:
        return Dropout()
    keys_B, states_BM = batch.dropout_keys_B, batch.dropout_states_BM
    if keys_B is None:
        keys_B = torch.randint(2**63 - 1, (len(batch),), device=batch.ends_BS.device)
    if events_first or serves_host(keys_B):
        return EventDropout(keys_B, rate, events_first=events_first, states_BM=states_BM)
    return DeviceDropout(keys_B, rate, states_BM)


def row_dropout_for(keys_V: Tensor | None, like: Tensor, rate: float, *, training: bool) -> Dropout:
    """Return the dropout of a hop's rows, as many as `like` has, each with a key; values have rows as their
    first axis."""
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


class HostBytes:
    """One generator per event, read on from call to call."""

    def __init__(self, keys_B: Tensor) -> None:
        self._streams = [np.random.SFC64(key % 2**64) for key in keys_B.tolist()]

    def draw(self, count: int) -> Tensor:
        """Return the next `count` random bytes of each event, (B, count); the caller may change them."""
        words = np.empty((len(self._streams), -(-count // 8)), dtype=np.uint64)
        for row, stream in zip(words, self._streams, strict=True):
            row[:] = stream.random_raw(len(row))
        return torch.from_numpy(words.view(np.uint8))[:, :count].contiguous()


class DeviceBytes:
    """Draws bytes with torch's operations: word w of call c of an event is a hash of (key, c, w)."""

    def __init__(self, keys_B: Tensor, states_BM: Tensor | None = None) -> None:
        """`states_BM`: those of the first calls, if they are known."""
        self._keys_B, self._states_BM, self._calls = keys_B, states_BM, 0

    def draw(self, count: int) -> Tensor:
        return self.draw_calls((count,))[:, :count]

    def draw_calls(self, counts: tuple[int, ...]) -> Tensor:
        """Return the bytes of the next calls side by side, each filled up to whole words, in one go."""
        # a compiler sees through no cache, and needs none
        places = _places_of_words if torch.compiler.is_compiling() else _known_places
        call_W, word_W = places(counts, self._keys_B.device)
        state_BW = self._next_states(len(counts)).index_select(1, call_W)
        return words_at(state_BW, word_W).view(torch.uint8)

    def _next_states(self, count: int) -> Tensor:
        """Return what the next calls go on from, (B, count)."""
        before, known_BM = self._calls, self._states_BM
        self._calls += count
        if known_BM is not None and self._calls <= known_BM.shape[1]:
            return known_BM[:, before : self._calls]
        return _states_of(self._keys_B, before + 1, count)


def _in_whole_words(counts: Sequence[int]) -> list[int]:
    return [8 * -(-count // 8) for count in counts]


def _places_of_words(counts: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the call that each word belongs to, and its number there, from 1."""
    words = [size // 8 for size in _in_whole_words(counts)]
    call_W = torch.cat([torch.full((size,), call, device=device) for call, size in enumerate(words)])
    return call_W, torch.cat([torch.arange(1, size + 1, device=device) for size in words])


_known_places = lru_cache(maxsize=16)(_places_of_words)
"""Keeps the places, which are the same in every step."""
