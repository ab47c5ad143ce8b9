"""Times as the user has them to times as the log counts them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tpnet_dist.errors import InputError
from tpnet_dist.events.manifest import Manifest
from tpnet_dist.events.shards import Times

GivenTimes = int | float | np.datetime64 | Sequence[Any] | npt.NDArray[Any]


def as_times(given: GivenTimes, manifest: Manifest, count: int) -> Times:
    """`count` of them; one serves all. Dates become ticks since 1970, numbers are ticks already."""
    times = np.asarray(given)
    if times.dtype.kind == "M":
        times = times.astype(f"datetime64[{manifest.time_unit}]").astype(np.int64)
    if not times.size:
        return np.empty(0, manifest.time_dtype)
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
