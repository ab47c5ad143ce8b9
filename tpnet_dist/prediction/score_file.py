"""Results as CSV or Parquet, by the file's name; a file appears complete or not at all."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tpnet_dist.errors import InputError
from tpnet_dist.files.atomic_write import atomic_write

SUFFIXES = (".csv", ".parquet")
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
