"""Times as people have them become times as the log counts them, or are refused."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.event_logs import write_log
from tests.support.sentences import refused
from tpnet_dist.events.manifest import Manifest
from tpnet_dist.prediction.times import as_times, require_order, require_present

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
    with refused():
        as_times(date(FIRST), counted, 1)


def test_a_date_finer_than_the_log_is_refused_where_all_times_are_whole(manifest: Manifest) -> None:
    assert as_times(date(FIRST, ".000"), manifest, 1).tolist() == [FIRST]
    with refused():
        as_times([date(FIRST, ".000"), date(FIRST, ".250")], manifest, 2)


def test_a_date_finer_than_the_log_keeps_its_fraction_where_times_have_some(manifest: Manifest) -> None:
    fractions = replace(manifest, time_dtype="float64")
    assert as_times(date(FIRST, ".250"), fractions, 1).tolist() == [FIRST + 0.25]


class Stamp(datetime):
    """As table programs have them."""

    def to_datetime64(self) -> np.datetime64:
        return np.datetime64(self.astimezone(UTC).replace(tzinfo=None), "ns")


EAST = timezone(timedelta(hours=5))
DATES = {
    "without a zone": datetime(2023, 11, 14, 22, 13, 20),
    "UTC": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
    "elsewhere": datetime(2023, 11, 15, 3, 13, 20, tzinfo=EAST),
    "of a table program": Stamp(2023, 11, 15, 3, 13, 20, tzinfo=EAST),
}


@pytest.mark.parametrize("kind", DATES)
def test_dates_of_python_are_times_in_utc(manifest: Manifest, kind: str) -> None:
    assert as_times(DATES[kind], manifest, 2).tolist() == [FIRST] * 2
    assert as_times([DATES[kind], DATES["UTC"]], manifest, 2).tolist() == [FIRST] * 2


def test_one_time_serves_all_also_in_a_list(manifest: Manifest) -> None:
    assert as_times([FIRST], manifest, 3).tolist() == as_times(FIRST, manifest, 3).tolist() == [FIRST] * 3
    for given in ([FIRST] * 2, [[FIRST]]):
        with refused():
            as_times(given, manifest, 3)


UNUSABLE: dict[str, Any] = {
    "too large": 1e30,
    "too small": [0, -1e30],
    "beyond int64": np.array([2**63], np.uint64),
    "a whole number beyond int64": [10**20],
    "a whole number too long to show": 10**5000,
    "no time": np.datetime64("NaT"),
    "None": [FIRST, None],
    "a date among numbers": [FIRST, DATES["UTC"]],
    "text": np.array(["soon"], object),
    "a truth value": [True],
    "unequal lengths": [[1], [1, 2]],
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", UNUSABLE)
def test_what_is_no_time_gets_one_sentence(manifest: Manifest, name: str) -> None:
    given = UNUSABLE[name]
    with refused():
        as_times(given, manifest, len(given) if isinstance(given, list) else 1)


def test_a_date_beyond_what_nanoseconds_reach_is_refused(manifest: Manifest) -> None:
    fine = replace(
        manifest, time_unit="ns", first_time=FIRST * 10**9, last_time=FIRST * 10**9, time_dtype="int64"
    )
    with refused():
        as_times(np.datetime64("2500-01-01"), fine, 1)


def test_the_past_is_refused_by_its_date_where_the_log_has_dates(manifest: Manifest) -> None:
    earlier = np.array([FIRST, FIRST + 30])
    require_present(earlier, FIRST, manifest)
    with refused():
        require_present(earlier, FIRST + 60, manifest)
    with refused():
        require_present(np.array([5]), 60, replace(manifest, first_time=0, last_time=60))


def test_events_out_of_order_are_refused_by_their_dates(manifest: Manifest) -> None:
    later = np.array([FIRST + 60, FIRST + 30])
    with refused():
        require_order(later, FIRST + 120, manifest, "event")
    with refused():
        require_order(later, FIRST, manifest, "event")
