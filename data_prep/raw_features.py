"""Raw features while a source is read: gaps, categories by number, and what is found out of all of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.values import Rejected, is_text, parse_numbers
from tpnet_dist.errors import InputError
from tpnet_dist.events.feature_rules import FeatureColumn, Matrix, numbers_with_gaps, texts_of

Fill = Literal["0", "mean"]
MAX_CATEGORIES = 256
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """What the user asks for."""

    fill: Fill | None = None
    one_hot: tuple[str, ...] = ()
    standardize: bool = False

    @property
    def is_plain(self) -> bool:
        return self == FeatureOptions()


@dataclass
class FeatureReading:
    """Reads columns of features alike in all sources of a conversion."""

    options: FeatureOptions
    known: tuple[FeatureColumn, ...] = ()
    """The feature columns of the log that is appended to; their categories stay."""
    _codes: dict[str, dict[str, int]] = field(default_factory=dict)

    def column(self, values: pa.Array, name: str, *, decimal_comma: bool = False) -> Matrix:
        """Return one value a row; `Rejected` where one is no number, or missing without --fill."""
        if name in self.options.one_hot:
            return self._categories(values, name)
        if self.options.fill is None:
            return parse_numbers(values, decimal_comma=decimal_comma)
        if decimal_comma and is_text(values.type):
            values = pc.replace_substring(values, ",", ".")
        numbers = numbers_with_gaps(values)
        if numbers is None or np.isinf(numbers).any():
            raise Rejected
        return numbers

    def _categories(self, values: pa.Array, name: str) -> Matrix:
        distinct = texts_of(values).dictionary_encode()
        codes = self._codes.setdefault(name, {})
        of_distinct = [codes.setdefault(each, len(codes)) for each in distinct.dictionary.to_pylist()]
        if len(codes) > MAX_CATEGORIES:
            raise InputError(
                f"--one-hot {name}: the column has more than {MAX_CATEGORIES} different values; group "
                "them, or "
                "leave the column away"
            )
        places = pc.fill_null(distinct.indices, len(of_distinct)).to_numpy(zero_copy_only=False)
        numbers: Matrix = np.array([*of_distinct, np.nan], np.float32)[places]
        return numbers

    def renumber(self, raw: Matrix, columns: tuple[FeatureColumn, ...]) -> Matrix:
        """Number categories by their place among those kept, in place of the order of appearance."""
        raw = raw.copy()
        for number, column in enumerate(columns):
            if column.categories:
                seen = self._codes.get(column.name, {})
                places = [column.categories.index(each) if each in column.categories else -1 for each in seen]
                is_there = ~np.isnan(raw[:, number])
                codes = raw[is_there, number].astype(np.int64)
                raw[is_there, number] = np.array([*places, -1], np.float32)[codes]
        return raw

    def columns(self, names: list[str], blocks: "Blocks") -> tuple[FeatureColumn, ...]:
        """Return what is kept of each column. Means are those of blocks of one size: sums do not depend on
        how the sources were cut."""
        count, total, square, gaps = (np.zeros(len(names)) for _ in range(4))
        for block in blocks:
            values = block.astype(np.float64)
            is_gap = np.isnan(values)
            gaps += is_gap.sum(0)
            count += (~is_gap).sum(0)
            total += np.where(is_gap, 0, values).sum(0)
        self.num_gaps = {
            name: int(gaps[number])
            for number, name in enumerate(names)
            if gaps[number] and name not in self.options.one_hot
        }
        if self.known:
            return self.known
        mean = total / np.maximum(count, 1)
        if self.options.standardize:
            for block in blocks:
                values = block.astype(np.float64)
                square += np.where(np.isnan(values), 0, (values - mean) ** 2).sum(0)
        deviation = np.sqrt(square / np.maximum(count, 1))
        found = []
        for number, name in enumerate(names):
            column = FeatureColumn(name=name)
            if name in self.options.one_hot:
                found.append(replace(column, categories=tuple(sorted(self._codes.get(name, {})))))
                continue
            if self.options.fill is not None:
                column = replace(column, fill=0.0 if self.options.fill == "0" else float(mean[number]))
            if self.options.standardize:
                # a column of one value says nothing: it becomes zeros
                column = replace(column, shift=float(mean[number]), scale=float(deviation[number]) or 1.0)
            found.append(column)
        return tuple(found)

    @property
    def unknown_categories(self) -> dict[str, list[str]]:
        """The categories that the log which is appended to does not have, by column; they become zeros."""
        found = {
            column.name: [each for each in self._codes.get(column.name, ()) if each not in column.categories]
            for column in self.known
            if column.categories
        }
        return {name: categories for name, categories in found.items() if categories}

    num_gaps: dict[str, int] = field(default_factory=dict)
    """Missing values, by column."""


class Blocks:
    """A matrix on disk or in memory, block by block, any number of times."""

    def __init__(self, rows: Callable[[slice], Matrix], num_rows: int) -> None:
        self._rows, self._num_rows = rows, num_rows

    def __iter__(self) -> Iterator[Matrix]:
        starts = range(0, self._num_rows, _ROWS_AT_ONCE)
        return (self._rows(slice(start, min(start + _ROWS_AT_ONCE, self._num_rows))) for start in starts)
