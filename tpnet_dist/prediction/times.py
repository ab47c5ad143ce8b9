"""Times as the user has them to times as the log counts them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tpnet_dist.errors import InputError
from tpnet_dist.events.manifest import Manifest
from tpnet_dist.events.shards import Times
from tpnet_dist.events.unix_times import are_unix_times

GivenTimes = int | float | np.datetime64 | Sequence[Any] | npt.NDArray[Any]


def as_times(given: GivenTimes, manifest: Manifest, count: int) -> Times:
    """`count` of them; one serves all. Dates become ticks since 1970, numbers are ticks already."""
    times = np.asarray(given)
    if not times.size:
        return np.empty(0, manifest.time_dtype)
    if times.dtype.kind == "M":
        times = _ticks_of(times, manifest)
    if times.dtype.kind not in "iuf":
        raise InputError(f"time {times.flat[0]!r} is neither a number nor a date; give one of these")
    if times.ndim and times.shape != (count,):
        raise InputError(f"{times.size:,} times are given for {count:,} links; give one, or one for each")
    times = np.broadcast_to(times, (count,))
    if times.dtype.kind == "f" and not np.isfinite(times).all():
        raise InputError("a time is NaN or infinite, but must be a number; mend it")
    if manifest.time_dtype == "int64" and times.dtype.kind == "f" and (times % 1).any():
        wrong = times[np.flatnonzero(times % 1)[0]]
        raise InputError(f"time {wrong} is not whole, as all times of this log are; round it")
    return np.ascontiguousarray(times.astype(manifest.time_dtype))


def _ticks_of(dates: npt.NDArray[Any], manifest: Manifest) -> npt.NDArray[Any]:
    """Since 1970, with fractions where the log has such."""
    first, last, unit = manifest.first_time, manifest.last_time, manifest.time_unit
    if not are_unix_times(first, last, manifest.seconds_per_tick):
        raise InputError(
            f"time {dates.flat[0]} is a date, but this log's times, {first} to {last} {unit}, are not "
            "counted since 1970; give numbers as the log has them"
        )
    whole = dates.astype(f"datetime64[{unit}]")
    rest = (dates - whole.astype(dates.dtype)) / np.array(1, f"timedelta64[{unit}]")
    if manifest.time_dtype == "int64" and rest.any():
        finer = dates[rest != 0].flat[0]
        raise InputError(f"time {finer} is not whole in {unit}, as all times of this log are; round it")
    ticks = whole.astype(np.int64)
    return ticks if manifest.time_dtype == "int64" else ticks + rest


def require_order(times: Times, now: float, what: str) -> None:
    """Refuse events that are not in order of time, or before what has happened already."""
    if not len(times):
        return
    if times[0] < now:
        raise InputError(
            f"{what} 0: time {times[0]} is before {now}, the time of the last event recorded; "
            "give later events only"
        )
    backward = times[1:] < times[:-1]
    if backward.any():
        row = int(backward.argmax()) + 1
        raise InputError(
            f"{what} {row}: time {times[row]} is before {times[row - 1]} of the one before it; "
            "sort them by time"
        )


def require_present(times: Times, now: float) -> None:
    """Refuse to score what lies in the past: rows and neighbours are those of now."""
    if len(times) and (earliest := times.min()) < now:
        raise InputError(
            f"time {earliest} is before {now}, the time of the last event recorded; ask about times from "
            "then on, or load with an earlier until"
        )
