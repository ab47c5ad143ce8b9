"""Columns of text as numbers and dates: all of a column, or None."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

EXACT_IN_FLOAT64 = 2**53
"""Up to here fractions keep whole numbers as they are."""

_TIME_WITH_ZONE = r"\d:\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"


def cast_or_none(column: pa.Array, dtype: pa.DataType) -> pa.Array | None:
    """None if some value does not fit. The first few are tried alone: a failing cast is a slow one."""
    try:
        pc.cast(column[:16], dtype)
        return pc.cast(column, dtype)
    except pa.ArrowInvalid:
        return None


def iso_microseconds(column: pa.Array) -> npt.NDArray[np.int64] | None:
    """Since 1970. Zone offsets are honoured; times without one are UTC."""
    column = pc.utf8_trim_whitespace(column)
    has_zone = pc.match_substring_regex(column, _TIME_WITH_ZONE).to_numpy(zero_copy_only=False)
    microseconds = np.empty(len(column), np.int64)
    for mask, dtype in ((has_zone, pa.timestamp("us", "UTC")), (~has_zone, pa.timestamp("us"))):
        moments = cast_or_none(column.filter(pa.array(mask)), dtype)
        if moments is None:
            return None
        microseconds[mask] = pc.cast(moments, pa.int64()).to_numpy()
    return microseconds
