"""How columns of features become values of events or nodes: missing values, categories, one scale. What was
found in the log is kept in its manifest, and applied to whatever comes later."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tpnet_dist.errors import InputError

Matrix = npt.NDArray[np.float32]
MISSING_SPELLINGS = ("", "null", "NULL", "nan", "NaN", "None", "NA", "N/A", "<NA>")


@dataclass(frozen=True, kw_only=True)
class FeatureColumn:
    """One column of raw features and what is made of it."""

    name: str
    """The column's name in the files; for a column of lists, with the place in brackets."""
    categories: tuple[str, ...] = ()
    """One value of 0 or 1 for each; empty for a column of numbers."""
    fill: float | None = None
    """The value that takes the place of missing ones; None: they are refused."""
    shift: float = 0.0
    scale: float = 1.0
    """Values are (value - shift) / scale."""

    @property
    def names(self) -> list[str]:
        return [f"{self.name}={each}" for each in self.categories] or [self.name]


def transform(columns: Sequence[FeatureColumn], raw: Matrix) -> Matrix:
    """Turn raw values into values of features. `raw`: a value for each column, NaN where it is missing, the
    number of the category or -1 for another."""
    parts = []
    for number, column in enumerate(columns):
        values = raw[:, number].astype(np.float64)
        if column.categories:
            parts.append((values[:, None] == np.arange(len(column.categories))).astype(np.float32))
            continue
        if column.fill is not None:
            values = np.where(np.isnan(values), column.fill, values)
        parts.append(((values - column.shift) / column.scale).astype(np.float32)[:, None])
    return np.concatenate(parts, axis=1)


def raw_values(columns: Sequence[FeatureColumn], column_of: Callable[[str], pa.Array]) -> Matrix:
    """Return the values that `transform` takes, of later rows. InputError, without the file's name, for a
    value that is none."""
    parts = []
    for column in columns:
        name, bracket, place = column.name.partition("[")
        values = column_of(name)
        if bracket and place.endswith("]"):
            values = pc.list_element(values, int(place[:-1]))
        if column.categories:
            parts.append(_codes(values, column.categories))
            continue
        numbers = numbers_with_gaps(values)
        if numbers is None or np.isinf(numbers).any() or (column.fill is None and np.isnan(numbers).any()):
            raise InputError(f"column {column.name}: a feature is missing or no finite number; correct it")
        parts.append(numbers)
    return np.column_stack(parts)


def numbers_with_gaps(values: pa.Array) -> Matrix | None:
    """Return float32, NaN where a value is missing; None if some value is no number."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        text = pc.utf8_trim_whitespace(values)
        values = pc.if_else(pc.is_in(text, pa.array(MISSING_SPELLINGS)), None, text)
    try:
        numbers = pc.cast(values, pa.float32(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    found: Matrix = pc.fill_null(numbers, float("nan")).to_numpy(zero_copy_only=False)
    return found


def texts_of(values: pa.Array) -> pa.Array:
    """Return categories as text, null where one is missing."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    text = pc.utf8_trim_whitespace(pc.cast(values, pa.string()))
    return pc.if_else(pc.is_in(text, pa.array(MISSING_SPELLINGS)), pa.scalar(None, pa.string()), text)


def _codes(values: pa.Array, categories: tuple[str, ...]) -> Matrix:
    codes = pc.index_in(texts_of(values), value_set=pa.array(categories, pa.string()))
    found: Matrix = pc.fill_null(codes, -1).to_numpy(zero_copy_only=False).astype(np.float32)
    return found
