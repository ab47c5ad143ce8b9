"""Random numbers that are a function of what they are for, not of a running generator: SplitMix64.

A state of 64 bits takes in one number after the other — event, seed, epoch, … — and is mixed each time; the
words drawn from it are mixes of a counter, as SplitMix64 makes them. So a draw is the same whichever rank
asks for it, in which company, and after whatever restart. In torch (signed, any device) for what goes with
tensors; in numpy (unsigned) for the plan; bit by bit the same words.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15
FIRST_FACTOR, SECOND_FACTOR = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
MAX_BELOW = 2**63 - 1

Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.integer]


class SampleKey(NamedTuple):
    """The part of the key that all draws of an epoch share; the number of the event or query and the slot
    come on top."""

    seed: int
    epoch: int


def state_of(key: SampleKey, number_B: Tensor) -> Tensor:
    """Return one state per event or query number, spread over all 64 bits of an int64."""
    return mix_in(mix_in(number_B.to(torch.int64), key.seed + 1), key.epoch + 1)


def mix_in(state: Tensor, number: int) -> Tensor:
    """Return the states that follow from these and the number."""
    return _mix(state + _signed(GOLDEN * number))


def words_of(state_B: Tensor, count: int) -> Tensor:
    """Return `count` words of 64 random bits from each state, (B, count)."""
    return words_at(state_B[:, None], torch.arange(1, count + 1, device=state_B.device))


def words_at(state: Tensor, number: Tensor) -> Tensor:
    """Return the words of 64 random bits with these numbers, counted from 1, from each state."""
    return _mix(state + number * _signed(GOLDEN))


def fractions_of(key: SampleKey, query_B: Tensor, count: int) -> Tensor:
    """Return numbers in [0, 1) that depend on key, query and slot alone: 52 bits of a word each."""
    return _shift(words_of(state_of(key, query_B), count), 12).to(torch.float64).mul_(2.0**-52)


def keyed_integers(
    key: SampleKey, event_B: Integers, *, stream: int, count: int, below: int | Integers
) -> npt.NDArray[np.int64]:
    """Return uniform integers in [0, below), (B, count), that depend on key, event, stream and slot alone.

    `stream` tells apart what is drawn for the same event; `below` is one bound or one per event. The bound
    scales all 64 bits of a word, in whole numbers: no value is favoured by more than below / 2**64.
    """
    below_B1 = np.asarray(below, dtype=np.int64).reshape(-1, 1)
    assert len(below_B1) in (1, len(event_B)), (len(below_B1), len(event_B))
    assert not len(event_B) or (below_B1.min() > 0 and below_B1.max() <= MAX_BELOW), "bounds out of range"
    state_B = event_B.astype(np.uint64)
    # streams count downwards: dropout counts its calls upwards from the same state
    for number in (key.seed + 1, key.epoch + 1, -1 - stream):
        state_B = _mix_words(state_B + _unsigned(GOLDEN * number))
    counter_M = np.arange(1, count + 1, dtype=np.uint64) * _unsigned(GOLDEN)
    return _scaled(_mix_words(state_B[:, None] + counter_M), below_B1.astype(np.uint64)).astype(np.int64)


def keyed_choice(key: SampleKey, event_B: Integers, *, stream: int, below: int) -> npt.NDArray[np.int64]:
    """Return one integer in [0, below) for each event, all distinct; with repeats if there are more events.

    What an event gets depends on the events before it in the list, so ranks must give the same list. It is a
    Fisher-Yates shuffle of all integers, of which only those that were moved are kept.
    """
    num_events = len(event_B)
    if num_events > below:
        return keyed_integers(key, event_B, stream=stream, count=1, below=below)[:, 0]
    left_B = below - np.arange(num_events)
    step_B = keyed_integers(key, event_B, stream=stream, count=1, below=left_B)[:, 0]
    chosen_B, moved = np.empty(num_events, np.int64), dict[int, int]()
    for place, drawn in enumerate((np.arange(num_events) + step_B).tolist()):
        chosen_B[place] = moved.get(drawn, drawn)
        moved[drawn] = moved.get(place, place)
    return chosen_B


def _mix(state: Tensor) -> Tensor:
    state = _shift(state, 30).bitwise_xor_(state).mul_(_signed(FIRST_FACTOR))
    state = _shift(state, 27).bitwise_xor_(state).mul_(_signed(SECOND_FACTOR))
    return _shift(state, 31).bitwise_xor_(state)


def _mix_words(state: Words) -> Words:
    state = ((state >> np.uint64(30)) ^ state) * _unsigned(FIRST_FACTOR)
    state = ((state >> np.uint64(27)) ^ state) * _unsigned(SECOND_FACTOR)
    return (state >> np.uint64(31)) ^ state


def _scaled(words_BM: Words, below_B1: Words) -> Words:
    """Return word · below / 2**64 rounded down, by halves of both so that no product leaves 64 bits."""
    half, ones = np.uint64(32), np.uint64(0xFFFFFFFF)
    high_BM, low_BM = words_BM >> half, words_BM & ones
    high_B1, low_B1 = below_B1 >> half, below_B1 & ones
    crossed_BM, other_BM = high_BM * low_B1, low_BM * high_B1
    carried_BM = (low_BM * low_B1 >> half) + (crossed_BM & ones) + (other_BM & ones)
    scaled_BM: Words = high_BM * high_B1 + (crossed_BM >> half) + (other_BM >> half) + (carried_BM >> half)
    return scaled_BM


def _shift(state: Tensor, bits: int) -> Tensor:
    """Shift to the right as if unsigned; torch's own shift repeats the sign, so the bits it brings in are
    cut."""
    return (state >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    """Return the same 64 bits as a signed integer."""
    return (value + 2**63) % 2**64 - 2**63


def _unsigned(value: int) -> np.uint64:
    return np.uint64(value % 2**64)
