"""Links, sources and events in files of any size, CSV or Parquet, read a block at a time."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from tpnet_dist.errors import InputError
from tpnet_dist.events.raw_ids import Ids
from tpnet_dist.events.text_columns import EXACT_IN_FLOAT64, cast_or_none, iso_nanoseconds

ROWS_PER_BLOCK = 20_000
_BLOCK_BYTES = 4 << 20
_NO_TIMES = ("", "null", "NULL", "NA", "N/A", "None", "NaT")


@dataclass(frozen=True)
class FileBlock:
    """Consecutive rows; a column that the file does not have is None."""

    src: Ids
    dst: Ids | None
    time: npt.NDArray[Any] | None
    """Numbers or dates."""
    features: npt.NDArray[np.float32] | None

    def __len__(self) -> int:
        return len(self.src)

    def __getitem__(self, rows: slice | npt.NDArray[np.bool_]) -> "FileBlock":
        dst, time, features = (
            None if column is None else column[rows] for column in (self.dst, self.time, self.features)
        )
        return FileBlock(self.src[rows], dst, time, features)


@dataclass(frozen=True)
class LinkFile:
    """A file, and which of its columns are which."""

    path: Path
    src: str = "src"
    dst: str | None = "dst"
    time: str = "time"
    """May be absent."""
    num_features: int = 0
    """The columns after these three, in order, if there must be so many."""

    def blocks(self) -> Iterator[FileBlock]:
        """In order; may be read again and again. A file without rows has none."""
        try:
            for batch in self._batches():
                for start in range(0, len(batch), ROWS_PER_BLOCK):
                    yield self._block(batch.slice(start, ROWS_PER_BLOCK))
        except FileNotFoundError as error:
            raise InputError(f"{self.path}: there is no such file; give one that exists") from error
        except (pa.ArrowException, UnicodeDecodeError) as error:
            kind = "Parquet" if self._is_parquet() else "CSV with a header"
            raise InputError(f"{self.path}: not readable as {kind}: {error}; correct it") from error
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be decompressed or read ({error}); if it is damaged, fetch or compress "
                "it again"
            ) from error

    def read(self) -> FileBlock:
        """All rows; refuses a file without any."""
        blocks = list(self.blocks())
        if not blocks:
            raise InputError(f"{self.path}: holds no rows; give a file with some")
        if len({block.time is not None and block.time.dtype.kind == "M" for block in blocks}) > 1:
            raise InputError(
                f"{self.path}: column {self.time}: holds numbers in some rows and dates in others; give one "
                "of these"
            )
        src, dst, time, features = (
            _together([getattr(block, name) for block in blocks])
            for name in ("src", "dst", "time", "features")
        )
        assert src is not None
        return FileBlock(src, dst, time, features)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self._is_parquet():
            with pq.ParquetFile(self.path) as file:
                self._require_columns(file.schema_arrow.names)
                yield from file.iter_batches(ROWS_PER_BLOCK)
        elif self.path.stat().st_size:
            with pa.input_stream(self.path) as stream:
                names = pyarrow.csv.open_csv(stream).schema.names
            self._require_columns(names)
            with pa.input_stream(self.path) as stream:
                yield from pyarrow.csv.open_csv(
                    stream,
                    pyarrow.csv.ReadOptions(block_size=_BLOCK_BYTES),
                    convert_options=self._types(names),
                )

    def _types(self, names: list[str]) -> "pyarrow.csv.ConvertOptions":
        """Ids and times as they are written, features as numbers; a column that nobody asks for may hold
        anything. The type of a time is no block's to decide for those after it."""
        texts = [name for name in (self.src, self.dst, self.time) if name is not None]
        rest = [name for name in names if name not in texts] if self.num_features else []
        types = {**dict.fromkeys(texts, pa.string()), **dict.fromkeys(rest, pa.float32())}
        used = [name for name in names if name in types]
        return pyarrow.csv.ConvertOptions(column_types=types, include_columns=used, strings_can_be_null=False)

    def _require_columns(self, names: list[str]) -> None:
        for name in (self.src, self.dst):
            if name is not None and name not in names:
                raise InputError(
                    f"{self.path}: has no column {name} among {', '.join(names)}; name it with --src or --dst"
                )
        for name in names:
            is_used = self.num_features > 0 or name in (self.src, self.dst, self.time)
            if is_used and names.count(name) > 1:
                raise InputError(
                    f"{self.path}: has {names.count(name)} columns {name}, but a name is one column's; "
                    "rename the others"
                )

    def _block(self, batch: pa.RecordBatch) -> FileBlock:
        dst = None if self.dst is None else self._ids(batch, self.dst)
        time = self._times(batch.column(self.time)) if self.time in batch.schema.names else None
        features = self._features(batch) if self.num_features else None
        return FileBlock(self._ids(batch, self.src), dst, time, features)

    def _ids(self, batch: pa.RecordBatch, name: str) -> Ids:
        column = batch.column(name)
        if column.null_count:
            raise InputError(f"{self.path}: column {name}: an id is missing; correct it")
        if pa.types.is_integer(column.type):
            numbers: Ids = column.to_numpy()
            return numbers
        texts = pc.utf8_trim_whitespace(pc.cast(column, pa.string()))
        if pc.any(pc.equal(texts, "")).as_py():
            raise InputError(f"{self.path}: column {name}: an id is empty; correct it")
        ids: Ids = texts.to_numpy(zero_copy_only=False)
        return ids

    def _times(self, column: pa.Array) -> npt.NDArray[Any]:
        kind = column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return self._times_of_text(pc.utf8_trim_whitespace(column))
        is_usable = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind)
        if not is_usable or column.null_count:
            wrong = "a value is missing" if column.null_count else f"it holds {kind}, such as {column[0]}"
            raise InputError(f"{self.path}: column {self.time}: {wrong}; give numbers or ISO dates")
        times: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return times

    def _times_of_text(self, column: pa.Array) -> npt.NDArray[Any]:
        for kind in (pa.int64(), pa.float64()):
            if (numbers := cast_or_none(column, kind)) is not None and not numbers.null_count:
                times: npt.NDArray[Any] = numbers.to_numpy()
                return times if kind == pa.int64() else _exact(column, times)
        if (nanoseconds := iso_nanoseconds(column)) is not None and not column.null_count:
            dates: npt.NDArray[Any] = nanoseconds.view("datetime64[ns]")
            return dates
        is_missing = column.null_count or pc.any(pc.is_in(column, pa.array(_NO_TIMES))).as_py()
        wrong = "a value is missing" if is_missing else f"it holds text, such as {_no_number_in(column)}"
        raise InputError(f"{self.path}: column {self.time}: {wrong}; give numbers or ISO dates")

    def _features(self, batch: pa.RecordBatch) -> npt.NDArray[np.float32]:
        names = [name for name in batch.schema.names if name not in (self.src, self.dst, self.time)]
        if len(names) != self.num_features:
            raise InputError(
                f"{self.path}: has {len(names)} columns beside source, destination and time, but events of "
                f"this log have {self.num_features} features; give these, in their order"
            )
        columns = [pc.cast(batch.column(name), pa.float32()) for name in names]
        rows = np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns])
        if not np.isfinite(rows).all():
            raise InputError(f"{self.path}: a feature is missing or not finite; correct it")
        return rows.astype(np.float32)

    def _is_parquet(self) -> bool:
        return self.path.suffix == ".parquet"


def content_key(path: Path) -> str:
    """Tells whether two hosts hold the same file; a folder, or what is not there, is told by its name."""
    if not path.is_file():
        return path.name
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            checksum = zlib.crc32(block, checksum)
    return f"{path.stat().st_size:,} bytes, checksum {checksum:08x}"


def _exact(column: pa.Array, fractions: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """Nanoseconds since 1970 that are written 17….0 have more digits than a fraction keeps."""
    if (np.abs(fractions) < EXACT_IN_FLOAT64).all():
        return fractions
    whole = cast_or_none(pc.replace_substring_regex(column, r"\.0*$", ""), pa.int64())
    return fractions if whole is None else whole.to_numpy()


def _no_number_in(column: pa.Array) -> str:
    """The first that is none; it may be a date among numbers."""
    is_number = pc.match_substring_regex(column, r"^[+-]?[\d.]+$")
    others = column.filter(pc.invert(is_number))
    return str((others if len(others) else column)[0])


def _together(parts: list[Any]) -> npt.NDArray[Any] | None:
    return None if parts[0] is None else np.concatenate(parts)
