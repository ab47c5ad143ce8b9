"""What benchmarks measure with: turns alternate, warm-ups do not count, memory is this process's."""

import mmap

import pytest

from benchmarks.measuring import (
    MIB,
    Quantiles,
    StopWatch,
    peak_bytes,
    repeat_for,
    repeated_seconds,
    reset_peak_memory,
    resident_bytes,
    take_turns,
)


def test_contestants_take_turns_and_the_first_is_not_counted() -> None:
    order: list[str] = []
    acts = {name: lambda name=name: order.append(name) or len(order) for name in ("ours", "theirs")}
    assert take_turns(acts, turns=2) == {"ours": [3, 5], "theirs": [4, 6]}
    assert order == ["ours", "theirs"] * 3


def test_repeats_leave_the_warm_up_away() -> None:
    acted: list[int] = []
    acts = [lambda number=number: acted.append(number) for number in range(5)]
    assert len(repeated_seconds(acts, warm_up=2)) == 3
    assert acted == [0, 1, 2, 3, 4]


def test_quantiles_are_the_median_and_what_nine_of_ten_stay_below() -> None:
    assert Quantiles.of(range(11)) == Quantiles(5.0, 9.0)


def test_a_watch_counts_from_its_start_or_its_last_lap() -> None:
    watch = StopWatch()
    first = watch.lap()
    watch.start()
    assert watch.laps == [first]
    assert watch.lap() >= 0
    assert len(watch.laps) == 2


def test_something_is_repeated_at_least_once() -> None:
    assert list(repeat_for(0.0)) == [0]


def test_a_peak_is_remembered_until_it_is_forgotten() -> None:
    # not by malloc, which may keep what it is given back
    held = mmap.mmap(-1, 64 * MIB)
    for page in range(0, 64 * MIB, mmap.PAGESIZE):
        held[page] = 1
    with_it = resident_bytes()
    held.close()
    assert peak_bytes() >= with_it - MIB
    try:
        reset_peak_memory()
    except OSError:
        pytest.skip("this system does not let a process forget its peak")
    # what was given back is no part of it any more
    assert peak_bytes() < with_it - 32 * MIB
