"""Whether times are likely dates: a log does not say so, but dates of today lie within a century."""

from datetime import UTC, datetime

# earlier times are more likely seconds since the first event than dates
_EARLIEST, _LATEST = (datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (1990, 2100))


def are_unix_times(first: float, last: float, seconds_per_tick: float) -> bool:
    """Whether times from the first to the last one may be counted since 1970."""
    return _EARLIEST <= first * seconds_per_tick <= last * seconds_per_tick < _LATEST
