"""Columns to ids, times and numbers, whole chunks at a time. A bad value raises `Rejected`, unexplained: the
source then reads row by row and says which one, so the rules cost nothing while all is well."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tpnet_dist.errors import InputError
from tpnet_dist.events.feature_rules import MISSING_SPELLINGS
from tpnet_dist.events.preparation import TimeUnit
from tpnet_dist.events.shards import Times
from tpnet_dist.events.text_columns import (
    EXACT_IN_FLOAT64,
    cast_or_none,
    formatted_nanoseconds,
    iso_nanoseconds,
)
from tpnet_dist.files.typed_json import shown

IS_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)

_PLAIN_INTEGER = r"^(0|-?[1-9]\d{0,17})$"
_MAYBE_INTEGER = r"^(0|-?[1-9]\d{0,18})$"
"""With those of 19 digits, some of which are larger than 63 bits."""
_POWERS_OF_TEN = 10 ** np.arange(1, 19, dtype=np.int64)


class Rejected(Exception):
    """A chunk holds a row that breaks a rule."""


class NoEvents(InputError):
    """A source has no rows: a mistake where a log is made of it, and nothing to do where one is appended
    to."""


@dataclass(frozen=True, kw_only=True)
class TimeRule:
    """What values of the time column mean."""

    unit: TimeUnit = "s"
    format: str | None = None
    decimal_comma: bool = False
    is_kept: bool = False
    """Whether the rule is that of a log that is appended to."""

    @property
    def is_dates(self) -> bool:
        return self.unit == "iso" or self.format is not None


def is_text(kind: pa.DataType) -> bool:
    return any(test(kind) for test in IS_TEXT)


def parse_ids(column: pa.Array, *, as_text: bool, missing: Sequence[str] = MISSING_SPELLINGS) -> pa.Array:
    """Return int64 if every id is a plainly written integer, else text: "007" stays "007". `missing`: what
    no id is."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count:
        raise Rejected
    if not is_text(column.type):
        return _ids_of_numbers(column, as_text=as_text)
    if column.type != pa.string():
        column = pc.cast(column, pa.string())
    if not as_text and (numbers := _plain_integers(column)) is not None:
        return numbers
    text = pc.utf8_trim_whitespace(column)
    if pc.any(pc.is_in(text, pa.array(missing))).as_py():
        raise Rejected
    if not as_text and (numbers := _plain_integers(text)) is not None:
        return numbers
    return text


def na_ids(raw: pa.Array) -> list[str]:
    """Return those ids that are also words for a missing value."""
    if pa.types.is_integer(raw.type):
        return []
    found: list[str] = raw.filter(pc.is_in(raw, pa.array(MISSING_SPELLINGS, raw.type))).to_pylist()
    return found


def kind_of_ids(raw: pa.Array) -> tuple[str, str]:
    """Return in words what ids are and, where a few made text of whole numbers, how many they are."""
    if pa.types.is_integer(raw.type):
        return "whole numbers", ""
    others = raw.filter(pc.invert(pc.match_substring_regex(raw, _MAYBE_INTEGER)))
    if not 0 < len(others) <= len(raw) / 2:
        return "text", ""
    return (
        "text",
        f"{len(others):,} of {len(raw):,} no plain whole number: {shown(others[0].as_py())}",
    )


def _ids_of_numbers(column: pa.Array, *, as_text: bool) -> pa.Array:
    """Return int64, or text where whole numbers are larger, as of files of text."""
    if pa.types.is_floating(column.type):
        values = column.to_numpy(zero_copy_only=False)
        if not (np.abs(values) < 2.0 ** (1 + np.finfo(values.dtype).nmant)).all():
            raise Rejected  # it may have been rounded
    try:
        numbers = _whole(column)
    except Rejected:
        if not pa.types.is_integer(column.type):
            raise
        numbers, as_text = column, True
    return pc.cast(numbers, pa.string()) if as_text else numbers


def _whole(column: pa.Array) -> pa.Array:
    """Return numbers of any type as int64."""
    if pa.types.is_boolean(column.type) or pa.types.is_temporal(column.type):
        raise Rejected
    try:
        return pc.cast(column, pa.int64())  # safe: fractions and what is too large are errors
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise Rejected from None


def parse_times(column: pa.Array, rule: TimeRule) -> Times:
    """Return int64 where every time is whole (dates: nanoseconds), float64 where one is not; never
    rounded."""
    times = parse_signed_times(column, rule)
    if (times < 0).any():
        raise Rejected
    return times


def parse_signed_times(column: pa.Array, rule: TimeRule) -> Times:
    """Parse a column that may hold numbers below zero, as no column of times does."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count:
        raise Rejected
    return _times_of_text(column, rule) if is_text(column.type) else _times_of_type(column, rule)


def _times_of_text(column: pa.Array, rule: TimeRule) -> Times:
    if rule.is_dates:
        form = rule.format
        moments = iso_nanoseconds(column) if form is None else formatted_nanoseconds(column, form)
        if moments is None:
            raise Rejected
        return moments
    if (numbers := _plain_integers(column)) is not None:
        whole: Times = numbers.to_numpy()
        return whole
    return _fractions(with_points(pc.utf8_trim_whitespace(column), rule.decimal_comma))


def _times_of_type(column: pa.Array, rule: TimeRule) -> Times:
    """Return the times of a typed column: timestamps say themselves what they are."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        if not rule.is_dates:
            raise Rejected
        moments = cast_or_none(column, pa.timestamp("ns", getattr(kind, "tz", None)))
        if moments is None:
            raise Rejected
        dates: Times = pc.cast(moments, pa.int64()).to_numpy()
        return dates
    if rule.format is not None and pa.types.is_integer(kind):  # 20240131
        return _times_of_text(pc.cast(column, pa.string()), rule)
    if rule.is_dates:
        raise Rejected
    if pa.types.is_integer(kind) or pa.types.is_duration(kind):
        whole: Times = _whole(
            pc.cast(column, pa.int64()) if pa.types.is_duration(kind) else column
        ).to_numpy()
        return whole
    if pa.types.is_decimal(kind):
        return _fractions(pc.cast(column, pa.string()))
    if not pa.types.is_floating(kind):
        raise Rejected
    return _exact(pc.cast(column, pa.float64()).to_numpy())


def with_points(column: pa.Array, decimal_comma: bool) -> pa.Array:
    return pc.replace_substring(column, ",", ".") if decimal_comma else column


def _fractions(column: pa.Array) -> Times:
    if (integers := _plain_integers(column)) is not None:
        whole: Times = integers.to_numpy()
        return whole
    numbers = cast_or_none(column, pa.float64())
    if numbers is None:
        raise Rejected
    return _exact(numbers.to_numpy())


def _exact(times: npt.NDArray[np.float64]) -> Times:
    if not (np.abs(times) < EXACT_IN_FLOAT64).all():  # NaN and infinity too
        raise Rejected
    return times.astype(np.int64) if (times == np.floor(times)).all() else times


def parse_numbers(column: pa.Array, *, decimal_comma: bool = False) -> npt.NDArray[np.float32]:
    """Return labels or features as float32."""
    if column.null_count:
        raise Rejected
    if is_text(column.type):
        column = with_points(column, decimal_comma)
    numbers = cast_or_none(column, pa.float32())
    if numbers is None:
        raise Rejected
    return finite(numbers.to_numpy(zero_copy_only=False))


def finite(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    if not np.isfinite(values).all():
        raise Rejected
    return values


def parse_feature_rows(column: pa.Array, *, below: int | None) -> npt.NDArray[np.int64]:
    """Return rows of features. Row 0 is padding, nobody's; `below` is the number of rows, where it is
    known."""
    if column.null_count:
        raise Rejected
    numbers = _plain_integers(column) if is_text(column.type) else _whole(column)
    if numbers is None:
        raise Rejected
    rows: npt.NDArray[np.int64] = numbers.to_numpy()
    if (rows < 1).any() or (below is not None and (rows >= below).any()):
        raise Rejected
    return rows


def _plain_integers(column: pa.Array) -> pa.Array | None:
    """Return int64; None if some value is no integer or not written plainly, such as 007 or 0x10."""
    numbers = cast_or_none(column, pa.int64())
    if numbers is None:
        return None
    plainly_written = _written_length(numbers.to_numpy()) == (pc.sum(pc.binary_length(column)).as_py() or 0)
    return numbers if plainly_written else None


def _written_length(numbers: npt.NDArray[np.int64]) -> int:
    """Return how many characters the numbers take when written plainly."""
    digits = 1 + np.searchsorted(_POWERS_OF_TEN, np.abs(numbers), side="right")
    return int(digits.sum()) + int(np.count_nonzero(numbers < 0))
