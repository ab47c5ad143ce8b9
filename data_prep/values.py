"""Columns of text to ids and times, whole chunks at a time. A bad value raises `Rejected`, unexplained:
`row_rules` then reads row by row and says which one, so the rules cost nothing while all is well."""

from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tpnet_dist.events.shards import Times
from tpnet_dist.events.text_columns import EXACT_IN_FLOAT64, cast_or_none, iso_microseconds

TimeUnit = Literal["s", "ms", "us", "ns", "iso"]
NULL_SPELLINGS = ("", "null", "NULL", "nan", "NaN", "None")

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


def parse_times(column: pa.Array, unit: TimeUnit) -> Times:
    """Int64 where every time is whole (ISO: microseconds), float64 where one is not; never rounded."""
    if unit == "iso":
        moments = iso_microseconds(column)
        if moments is None:
            raise Rejected
        times: Times = moments
    elif (numbers := _plain_integers(column)) is not None:
        times = numbers.to_numpy()
    else:
        times = _fractions(pc.utf8_trim_whitespace(column))
    if (times < 0).any():
        raise Rejected
    return times


def _fractions(column: pa.Array) -> Times:
    if (integers := _plain_integers(column)) is not None:
        whole: Times = integers.to_numpy()
        return whole
    numbers = cast_or_none(column, pa.float64())
    if numbers is None:
        raise Rejected
    times: npt.NDArray[np.float64] = numbers.to_numpy()
    if not (np.abs(times) < EXACT_IN_FLOAT64).all():  # NaN and infinity too
        raise Rejected
    return times.astype(np.int64) if (times == np.floor(times)).all() else times


def parse_numbers(column: pa.Array) -> npt.NDArray[np.float32]:
    """Labels and features."""
    numbers = cast_or_none(column, pa.float32())
    if numbers is None:
        raise Rejected
    return finite(numbers.to_numpy())


def finite(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    if not np.isfinite(values).all():
        raise Rejected
    return values


def parse_feature_rows(column: pa.Array, *, below: int | None) -> npt.NDArray[np.int64]:
    """Row 0 is padding, nobody's; `below` is the number of rows, where it is known."""
    numbers = _plain_integers(column)
    if numbers is None:
        raise Rejected
    rows: npt.NDArray[np.int64] = numbers.to_numpy()
    if (rows < 1).any() or (below is not None and (rows >= below).any()):
        raise Rejected
    return rows


def _plain_integers(column: pa.Array) -> pa.Array | None:
    """Int64 unless some value is no integer or not written plainly, such as 007 or 0x10."""
    numbers = cast_or_none(column, pa.int64())
    if numbers is None:
        return None
    plainly_written = _written_length(numbers.to_numpy()) == (pc.sum(pc.binary_length(column)).as_py() or 0)
    return numbers if plainly_written else None


def _written_length(numbers: npt.NDArray[np.int64]) -> int:
    """How many characters the numbers take when written plainly."""
    digits = 1 + np.searchsorted(_POWERS_OF_TEN, np.abs(numbers), side="right")
    return int(digits.sum()) + int(np.count_nonzero(numbers < 0))
