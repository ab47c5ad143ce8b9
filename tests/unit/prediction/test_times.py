"""Times as people have them become times as the log counts them, or are refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.event_logs import write_log
from tpnet_dist.errors import InputError
from tpnet_dist.events.manifest import Manifest
from tpnet_dist.prediction.times import as_times

FIRST = 1_700_000_000


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    """Of whole seconds since 1970."""
    return write_log(tmp_path / "log", [0, 1], [1, 0], [FIRST, FIRST + 60]).manifest


def date(seconds: int, more: str = "") -> np.datetime64:
    return np.datetime64(f"{np.datetime64(seconds, 's')}{more}")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_date_is_ticks_of_the_log_since_1970(manifest: Manifest, unit: str) -> None:
    ticks = round(1 / replace(manifest, time_unit=unit).seconds_per_tick)
    there = replace(manifest, time_unit=unit, first_time=FIRST * ticks, last_time=(FIRST + 60) * ticks)
    assert as_times([date(FIRST)], there, 1).tolist() == [FIRST * ticks]


@pytest.mark.parametrize(("first", "last"), [(0, 708), (0, FIRST), (FIRST, 5 * FIRST)])
def test_dates_are_refused_where_times_are_not_since_1970(manifest: Manifest, first: int, last: int) -> None:
    counted = replace(manifest, first_time=first, last_time=last)
    with pytest.raises(InputError, match=rf"is a date, but this log's times, {first} to {last} s, are not"):
        as_times(date(FIRST), counted, 1)


def test_a_date_finer_than_the_log_is_refused_where_all_times_are_whole(manifest: Manifest) -> None:
    assert as_times(date(FIRST, ".000"), manifest, 1).tolist() == [FIRST]
    with pytest.raises(InputError, match=r"time 2023-11-14T22:13:20.250 is not whole in s.*; round it"):
        as_times([date(FIRST, ".000"), date(FIRST, ".250")], manifest, 2)


def test_a_date_finer_than_the_log_keeps_its_fraction_where_times_have_some(manifest: Manifest) -> None:
    fractions = replace(manifest, time_dtype="float64")
    assert as_times(date(FIRST, ".250"), fractions, 1).tolist() == [FIRST + 0.25]
