"""Random numbers that are a function of what they are for, not of a running generator: SplitMix64."""

from typing import NamedTuple

import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15


class SampleKey(NamedTuple):
    """What `uniform` draws by, beside the number of the query and the slot."""

    seed: int
    epoch: int


def fractions_of(key: SampleKey, query_B: Tensor, count: int) -> Tensor:
    """Numbers in [0, 1) that depend on key, query and slot alone: SplitMix64 of a counter, 52 bits of it."""
    state_B = _mix(query_B.to(torch.int64) + _signed(GOLDEN * (key.seed + 1)))
    state_B = _mix(state_B + _signed(GOLDEN * (key.epoch + 1)))
    slot_M = torch.arange(1, count + 1, device=query_B.device) * _signed(GOLDEN)
    return _shift(_mix(state_B[:, None] + slot_M), 12).to(torch.float64).mul_(2.0**-52)


def _mix(state: Tensor) -> Tensor:
    state = _shift(state, 30).bitwise_xor_(state).mul_(_signed(0xBF58476D1CE4E5B9))
    state = _shift(state, 27).bitwise_xor_(state).mul_(_signed(0x94D049BB133111EB))
    return _shift(state, 31).bitwise_xor_(state)


def _shift(state: Tensor, bits: int) -> Tensor:
    """To the right as if unsigned; torch's own shift repeats the sign."""
    return (state >> bits).bitwise_and_(ones(64 - bits))


def _signed(value: int) -> int:
    """The same 64 bits as an int64."""
    return (value + 2**63) % 2**64 - 2**63


def ones(bits: int) -> int:
    """That many low bits set."""
    return (1 << bits) - 1
