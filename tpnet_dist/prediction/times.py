"""Times as the user has them to times as the log counts them."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from tpnet_dist.errors import InputError
from tpnet_dist.events.manifest import Manifest
from tpnet_dist.events.shards import Times
from tpnet_dist.events.unix_times import are_unix_times, date_of

GivenTimes = int | float | np.datetime64 | datetime | Sequence[Any] | npt.NDArray[Any]

_TOO_LARGE = 2**63
_SHOWN_BITS = 128
_MISSING = "a time is missing, but every link has one; correct it"


def as_times(given: GivenTimes, manifest: Manifest, count: int) -> Times:
    """`count` of them; one serves all. Dates become ticks since 1970, numbers are ticks already."""
    times = _array_of(given)
    if times.shape not in ((), (1,), (count,)):
        raise InputError(f"{times.size:,} times are given for {count:,} links; give one, or one for each")
    if not times.size:
        return np.empty(0, manifest.time_dtype)
    if times.dtype.kind == "M":
        times = _ticks_of(times, manifest)
    if times.dtype.kind not in "iuf":
        raise InputError(
            f"time {times.ravel()[:1].tolist()[0]!r:.40} is neither a number nor a date; give one of these"
        )
    if times.dtype.kind == "f" and not np.isfinite(times).all():
        raise InputError("a time is NaN or infinite, but must be a number; correct it")
    if (is_large := np.abs(times.astype(np.float64)) >= _TOO_LARGE).any():
        raise _too_large(times[is_large].flat[0])
    if manifest.time_dtype == "int64" and times.dtype.kind == "f" and (times % 1).any():
        wrong = times[times % 1 != 0].flat[0]
        raise InputError(f"time {wrong} is not whole, as all times of this log are; round it")
    return np.ascontiguousarray(np.broadcast_to(times, (count,)).astype(manifest.time_dtype))


def _array_of(given: GivenTimes) -> npt.NDArray[Any]:
    try:
        times = np.asarray(given)
    except ValueError as error:
        raise InputError(f"times are lists of unequal lengths ({error}); give one list of times") from error
    if times.dtype.kind != "O":
        return times
    plain = [_plain(one) for one in times.flat]
    kinds = {np.asarray(one).dtype.kind for one in plain}
    # numpy would make numbers of dates, or text of both
    return times if len(kinds) > 1 and "M" in kinds else np.array(plain).reshape(times.shape)


def _plain(one: Any) -> Any:  # noqa: ANN401 — whatever a list holds
    """Dates of Python and of table programs as numpy's, in UTC; without a zone they are UTC already."""
    if one is None:
        raise InputError(_MISSING)
    if hasattr(one, "to_datetime64"):
        return one.to_datetime64()
    if isinstance(one, datetime):
        return np.datetime64(one if one.tzinfo is None else one.astimezone(UTC).replace(tzinfo=None), "us")
    if isinstance(one, date):
        return np.datetime64(one)
    if isinstance(one, int) and abs(one) >= _TOO_LARGE:
        raise _too_large(one)
    return one


def _too_large(time: Any) -> InputError:  # noqa: ANN401 — whatever a list holds
    is_long = isinstance(time, int) and time.bit_length() > _SHOWN_BITS
    shown = f"of {int(time).bit_length():,} bits" if is_long else f"{time}"
    return InputError(f"time {shown} is too large, as times have 64 bits; write it as the log's times are")


def _were_dates(manifest: Manifest) -> bool:
    """Return whether the log was converted from dates, of any century."""
    kept = manifest.preparation
    if kept is None or kept.options.get("time_step") is not None:
        return False
    return kept.time_unit == "iso" or kept.time_format is not None


def _ticks_of(dates: npt.NDArray[Any], manifest: Manifest) -> npt.NDArray[Any]:
    """Return ticks since 1970, with fractions if the log has them."""
    first, last, unit = manifest.first_time, manifest.last_time, manifest.time_unit
    if not (_were_dates(manifest) or are_unix_times(first, last, manifest.seconds_per_tick)):
        raise InputError(
            f"time {dates.flat[0]} is a date, but this log's times, {first} to {last} {unit}, are not "
            "counted since 1970; give numbers as the log has them"
        )
    if np.isnat(dates).any():
        raise InputError(_MISSING)
    seconds = dates.astype("datetime64[s]").astype(np.float64)
    if (is_large := np.abs(seconds) / manifest.seconds_per_tick >= _TOO_LARGE).any():
        raise _too_large(dates[is_large].flat[0])
    whole = dates.astype(f"datetime64[{unit}]")
    rest = (dates - whole.astype(dates.dtype)) / np.array(1, f"timedelta64[{unit}]")
    if manifest.time_dtype == "int64" and rest.any():
        finer = dates[rest != 0].flat[0]
        raise InputError(f"time {finer} is not whole in {unit}, as all times of this log are; round it")
    ticks = whole.astype(np.int64)
    return ticks if manifest.time_dtype == "int64" else ticks + rest


def require_order(times: Times, now: float, manifest: Manifest, what: str) -> None:
    """Refuse events that are not in order of time, or before what has happened already."""
    if not len(times):
        return
    if times[0] < now:
        raise InputError(
            f"{what} 0: time {_dated(times[0], manifest)} is before {_dated(now, manifest)}, the time of the "
            "last event recorded; give later events only"
        )
    backward = times[1:] < times[:-1]
    if backward.any():
        row = int(backward.argmax()) + 1
        raise InputError(
            f"{what} {row}: time {_dated(times[row], manifest)} is before "
            f"{_dated(times[row - 1], manifest)} of the one before it; sort them by time"
        )


def require_present(
    times: Times, now: float, manifest: Manifest, remedy: str = "ask about times from then on"
) -> None:
    """Refuse to score what lies in the past: rows and neighbours are those of now."""
    if len(times) and (earliest := times.min()) < now:
        raise InputError(
            f"time {_dated(earliest, manifest)} is before {_dated(now, manifest)}, the time of the last "
            f"event recorded; {remedy}"
        )


def _dated(time: float, manifest: Manifest) -> str:
    """Show a time with its date, if the log has dates."""
    tick = manifest.seconds_per_tick
    is_date = time >= 0 and are_unix_times(manifest.first_time, manifest.last_time, tick)
    return f"{time} ({date_of(time * tick)})" if is_date else f"{time}"
