"""Keyed draws against SplitMix64 spelled out in Python integers, and against numbers drawn before."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tpnet_dist.keyed_random import (
    MAX_BELOW,
    SampleKey,
    fractions_of,
    keyed_choice,
    keyed_integers,
    state_of,
    words_of,
)

KEY = SampleKey(seed=3, epoch=1)
GOLDEN = 0x9E3779B97F4A7C15


def splitmix(state: int) -> int:
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) % 2**64
    return state ^ (state >> 31)


def literal_integer(key: SampleKey, event: int, stream: int, slot: int, below: int) -> int:
    state = event
    for number in (key.seed + 1, key.epoch + 1, -1 - stream):
        state = splitmix((state + GOLDEN * number) % 2**64)
    return splitmix((state + GOLDEN * (slot + 1)) % 2**64) * below >> 64


def test_words_of_state_zero_are_the_published_splitmix64_sequence() -> None:
    words = words_of(torch.zeros(1, dtype=torch.int64), 3).numpy().view(np.uint64)[0]
    assert words.tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_what_was_drawn_in_earlier_versions_is_drawn_again() -> None:
    events = torch.tensor([0, 7, 10**9])
    assert state_of(KEY, events).tolist() == [-6636457705877975743, 4270312243260898756, 7847888384624403069]
    assert [value.hex() for value in fractions_of(KEY, events, 2).flatten().tolist()] == [
        "0x1.909cea75b9018p-3",
        "0x1.322ce53ca6510p-3",
        "0x1.6d6d92e20fff4p-1",
        "0x1.178207b6d3af0p-2",
        "0x1.5e0102487ee4ap-1",
        "0x1.9cdbaa413aab8p-3",
    ]


@settings(deadline=None)
@given(
    key=st.builds(SampleKey, st.integers(0, 2**40), st.integers(0, 2**20)),
    events=st.lists(st.tuples(st.integers(0, 2**62), st.integers(1, MAX_BELOW)), max_size=5),
    stream=st.integers(0, 9),
    count=st.integers(0, 4),
)
def test_integers_are_those_of_python_arithmetic(key, events, stream, count) -> None:
    index = np.array([event for event, _ in events], dtype=np.int64)
    below = np.array([bound for _, bound in events], dtype=np.int64)
    drawn = keyed_integers(key, index, stream=stream, count=count, below=below)
    assert drawn.dtype == np.int64 and drawn.shape == (len(events), count)
    assert drawn.tolist() == [
        [literal_integer(key, event, stream, slot, bound) for slot in range(count)] for event, bound in events
    ]


def test_one_bound_serves_all_events() -> None:
    index = np.arange(6)
    one = keyed_integers(KEY, index, stream=0, count=3, below=7)
    each = keyed_integers(KEY, index, stream=0, count=3, below=np.full(6, 7))
    np.testing.assert_array_equal(one, each)


def test_integers_fill_the_range_evenly() -> None:
    drawn = keyed_integers(KEY, np.arange(20_000), stream=1, count=5, below=50).ravel()
    counts = np.bincount(drawn, minlength=50)
    assert len(counts) == 50
    # 49 degrees of freedom: passed once in 10,000 keys
    assert ((counts - 2000) ** 2 / 2000).sum() < 94


@pytest.mark.parametrize(
    ("key", "stream"), [(SampleKey(4, 1), 0), (SampleKey(3, 2), 0), (SampleKey(1, 3), 0), (KEY, 1)]
)
def test_another_seed_epoch_or_stream_draws_otherwise(key: SampleKey, stream: int) -> None:
    index = np.arange(500)
    first = keyed_integers(KEY, index, stream=0, count=4, below=1000)
    other = keyed_integers(key, index, stream=stream, count=4, below=1000)
    assert (first == other).mean() < 0.01


@pytest.mark.parametrize("below", [1, 7, 40, 41, 2**33, MAX_BELOW])
def test_a_choice_is_a_shuffle_step_by_step(below: int) -> None:
    index = np.arange(5, 45)
    drawn = keyed_choice(KEY, index, stream=0, below=below).tolist()
    assert all(0 <= number < below for number in drawn)
    if below < len(index):
        wanted = keyed_integers(KEY, index, stream=0, count=1, below=below)[:, 0].tolist()
        assert drawn == wanted
        return
    assert len(set(drawn)) == len(drawn)
    if below > 100:
        return
    numbers, wanted = list(range(below)), []
    for place, event in enumerate(index):
        step = int(keyed_integers(KEY, np.array([event]), stream=0, count=1, below=below - place)[0, 0])
        numbers[place], numbers[place + step] = numbers[place + step], numbers[place]
        wanted.append(numbers[place])
    assert drawn == wanted


def test_every_place_of_a_choice_draws_every_number_equally_often() -> None:
    drawn = np.stack(
        [keyed_choice(SampleKey(0, epoch), np.arange(3), stream=0, below=5) for epoch in range(5000)]
    )
    for place in range(3):
        counts = np.bincount(drawn[:, place], minlength=5)
        # 4 degrees of freedom: passed once in 10,000 keys
        assert ((counts - 1000) ** 2 / 1000).sum() < 23.5


@pytest.mark.parametrize("below", [0, -1])
def test_a_bound_below_one_is_refused(below: int) -> None:
    with pytest.raises(AssertionError, match="bounds"):
        keyed_integers(KEY, np.arange(2), stream=0, count=1, below=below)
