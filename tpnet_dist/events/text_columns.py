"""Columns of text as numbers and dates: all of a column, or None."""

import re

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

EXACT_IN_FLOAT64 = 2**53
"""Up to here fractions keep whole numbers as they are."""

_TIME_WITH_ZONE = r"\d:\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
_DATE_WITH_SLASHES = r"^(\d{4})/(\d\d)/(\d\d)"
_ZONE_IN_FORMAT = re.compile(r"%:?z|%#z")

Nanoseconds = npt.NDArray[np.int64]


def cast_or_none(column: pa.Array, dtype: pa.DataType) -> pa.Array | None:
    """Cast a column; None if some value does not fit. The first few are tried alone: a failing cast is a slow
    one."""
    try:
        pc.cast(column[:16], dtype)
        return pc.cast(column, dtype)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def without_views(column: pa.Array) -> pa.Array:
    """Return text of the type that Arrow's functions take; polars writes another into its files."""
    if pa.types.is_dictionary(column.type) and pa.types.is_string_view(column.type.value_type):
        return pc.cast(column.dictionary, pa.large_string()).take(column.indices)
    return pc.cast(column, pa.large_string()) if pa.types.is_string_view(column.type) else column


def iso_nanoseconds(column: pa.Array) -> Nanoseconds | None:
    """Return nanoseconds since 1970. Zone offsets are honoured; times without one are UTC. 2024/01/31 is
    2024-01-31."""
    column = pc.utf8_trim_whitespace(column)
    column = pc.replace_substring_regex(column, _DATE_WITH_SLASHES, r"\1-\2-\3")
    has_zone = pc.match_substring_regex(column, _TIME_WITH_ZONE).to_numpy(zero_copy_only=False)
    nanoseconds = np.empty(len(column), np.int64)
    for mask, dtype in ((has_zone, pa.timestamp("ns", "UTC")), (~has_zone, pa.timestamp("ns"))):
        moments = cast_or_none(column.filter(pa.array(mask)), dtype)
        if moments is None:
            return None
        nanoseconds[mask] = pc.cast(moments, pa.int64()).to_numpy()
    return nanoseconds


def formatted_nanoseconds(column: pa.Array, form: str) -> Nanoseconds | None:
    """Return nanoseconds since 1970 of dates written by a format such as `%d/%m/%Y %H:%M`; without a zone
    they are UTC. `.%f` is a fraction of a second of up to nine digits."""
    kind = pl.Datetime("ns", "UTC") if _ZONE_IN_FORMAT.search(form) else pl.Datetime("ns")
    texts = pl.Series(pl.from_arrow(pc.utf8_trim_whitespace(column)))
    try:
        moments = texts.str.strptime(kind, form.replace(".%f", "%.f"), strict=False)
    except pl.exceptions.PolarsError:
        return None
    if moments.null_count():
        return None
    nanoseconds: Nanoseconds = moments.cast(pl.Int64).to_numpy()
    return nanoseconds
