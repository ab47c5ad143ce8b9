"""Results as CSV or Parquet, by the file's name; a file appears complete or not at all. Or as a table."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tpnet_dist.errors import InputError
from tpnet_dist.files.atomic_write import atomic_write

SUFFIXES = (".csv", ".parquet")
MOST_SHOWN = 100
"""Rows on a terminal."""
Columns = Mapping[str, npt.NDArray[Any]]


class ScoreWriter:
    """Tables of the same columns, one after another; the first decides on their types."""

    def __init__(self, file: Any, is_parquet: bool) -> None:  # noqa: ANN401 — any file opened for writing
        self._file, self._is_parquet = file, is_parquet
        self._writer: Any = None
        self.num_rows = 0

    def write(self, columns: Columns) -> None:
        table = pa.table(dict(columns))
        if self._writer is None:
            kind = pq.ParquetWriter if self._is_parquet else pyarrow.csv.CSVWriter
            self._writer = kind(self._file, table.schema)
        self._writer.write_table(table)
        self.num_rows += len(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


@dataclass
class ScoreTable:
    """Shows results on standard output, in the same columns."""

    rows: list[list[str]] = field(default_factory=list)
    num_rows: int = 0
    _heads: list[str] = field(default_factory=list)

    def write(self, columns: Columns) -> None:
        self._heads = list(columns)
        size = len(next(iter(columns.values())))
        # whoever reads them from a pipe gets all
        some = slice(0, max(0, MOST_SHOWN - len(self.rows)) if sys.stdout.isatty() else size)
        shown = [[_cell(value) for value in column[some].tolist()] for column in columns.values()]
        self.rows += map(list, zip(*shown, strict=True))
        self.num_rows += size

    def show(self) -> None:
        """Print them, each column as wide as its widest cell."""
        lines = [self._heads, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            print("  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)))
        if self.num_rows > len(self.rows):
            print(f"… and {self.num_rows - len(self.rows):,} more rows; --out FILE.csv keeps all")


def _cell(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


@contextmanager
def score_file(path: Path) -> Iterator[ScoreWriter]:
    """It takes its place, and that of a file before it, when the body is done."""
    require_suffix(path)
    with atomic_write(path) as file:
        writer = ScoreWriter(file, path.suffix == ".parquet")
        yield writer
        writer.close()


def require_suffix(path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: ends neither in .csv nor in .parquet; choose one of these")
