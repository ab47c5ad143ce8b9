"""Whether times are likely dates: a log does not say so, but dates of today lie within a century. And how
dates and spans are shown."""

from datetime import UTC, datetime, timedelta

# earlier times are more likely seconds since the first event than dates
_EARLIEST, _LATEST = (datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (1990, 2100))


def are_unix_times(first: float, last: float, seconds_per_tick: float) -> bool:
    """Return whether times from the first to the last one may be counted since 1970."""
    return _EARLIEST <= first * seconds_per_tick <= last * seconds_per_tick < _LATEST


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DURATIONS = (("years", 365.25 * 86400), ("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0))


def date_of(seconds: float) -> str:
    """Return the date of a time in seconds since 1970."""
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S} UTC"


def duration(seconds: float) -> str:
    for name, size in _DURATIONS:
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {name}"
    return f"{seconds:,.6g} seconds"
