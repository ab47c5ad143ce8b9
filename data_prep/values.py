"""Columns of text to ids and times, whole chunks at a time. A bad value raises `Rejected`, unexplained:
`row_rules` then reads row by row and says which one, so the rules cost nothing while all is well."""

from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tpnet_dist.events.shards import Times

TimeUnit = Literal["s", "ms", "us", "ns", "iso"]
NULL_SPELLINGS = ("", "null", "NULL", "nan", "NaN", "None")

_TIME_WITH_ZONE = r"\d:\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
_POWERS_OF_TEN = 10 ** np.arange(1, 19, dtype=np.int64)


class Rejected(Exception):
    """A chunk holds a row that breaks a rule."""


def parse_ids(column: pa.Array, *, as_text: bool) -> pa.Array:
    """Int64 if every id is a plainly written integer, else text: "007" stays "007"."""
    if not as_text and (numbers := _plain_integers(column)) is not None:
        return numbers
    text = pc.utf8_trim_whitespace(column)
    if pc.any(pc.is_in(text, pa.array(NULL_SPELLINGS))).as_py():
        raise Rejected
    if not as_text and (numbers := _plain_integers(text)) is not None:
        return numbers
    return text


def _plain_integers(column: pa.Array) -> pa.Array | None:
    numbers = _cast(column, pa.int64())
    if numbers is None:
        return None
    plainly_written = _written_length(numbers.to_numpy()) == pc.sum(pc.binary_length(column)).as_py()
    return numbers if plainly_written else None


def _written_length(numbers: npt.NDArray[np.int64]) -> int:
    """How many characters the numbers take when written plainly."""
    digits = 1 + np.searchsorted(_POWERS_OF_TEN, np.abs(numbers), side="right")
    return int(digits.sum()) + int(np.count_nonzero(numbers < 0))


def parse_times(column: pa.Array, unit: TimeUnit) -> Times:
    """Int64 where every time is written as an integer (ISO: microseconds), else float64."""
    times = iso_microseconds(column) if unit == "iso" else _numbers(column)
    if not np.isfinite(times).all() or (times < 0).any():
        raise Rejected
    return times


def _numbers(column: pa.Array) -> Times:
    for form in (column, pc.utf8_trim_whitespace(column)):
        for dtype in (pa.int64(), pa.float64()):
            if (numbers := _cast(form, dtype)) is not None:
                times: Times = numbers.to_numpy()
                return times
    raise Rejected


def _cast(column: pa.Array, dtype: pa.DataType) -> pa.Array | None:
    """None if some value does not fit. The first few are tried alone: a failing cast is a slow one."""
    try:
        pc.cast(column[:16], dtype)
        return pc.cast(column, dtype)
    except pa.ArrowInvalid:
        return None


def iso_microseconds(column: pa.Array) -> npt.NDArray[np.int64]:
    """Zone offsets are honoured; times without one are UTC."""
    column = pc.utf8_trim_whitespace(column)
    has_zone = pc.match_substring_regex(column, _TIME_WITH_ZONE).to_numpy(zero_copy_only=False)
    microseconds = np.empty(len(column), np.int64)
    for mask, dtype in ((has_zone, pa.timestamp("us", "UTC")), (~has_zone, pa.timestamp("us"))):
        try:
            moments = pc.cast(column.filter(pa.array(mask)), dtype)
        except pa.ArrowInvalid:
            raise Rejected from None
        microseconds[mask] = pc.cast(moments, pa.int64()).to_numpy()
    return microseconds


def parse_feature_rows(column: pa.Array) -> npt.NDArray[np.int64]:
    numbers = _cast(column, pa.int64())
    if numbers is None:
        raise Rejected
    rows: npt.NDArray[np.int64] = numbers.to_numpy()
    return rows
