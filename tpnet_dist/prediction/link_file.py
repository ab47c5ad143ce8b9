"""Links, sources and events in files of any size, CSV, Parquet, Feather or JSON lines, read a block at a
time."""

import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tpnet_dist.errors import InputError
from tpnet_dist.events.feature_rules import raw_values, transform
from tpnet_dist.events.preparation import TextForm
from tpnet_dist.events.raw_ids import Ids
from tpnet_dist.events.text_columns import (
    EXACT_IN_FLOAT64,
    cast_or_none,
    formatted_nanoseconds,
    iso_nanoseconds,
    without_views,
)
from tpnet_dist.files.csv_quotes import EventLines, find_open_quote
from tpnet_dist.prediction.link_columns import GivenColumns, Role
from tpnet_dist.prediction.link_formats import TEXT, kind_of, open_input, typed_batches, typed_columns

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
    columns: GivenColumns = field(default_factory=GivenColumns)
    roles: tuple[Role, ...] = ("src", "dst")
    """The roles of ids that the file must have; the first is read as the source."""
    num_features: int = 0
    """If there must be so many: the log's own feature columns by name, else those beside ids and time."""

    @cached_property
    def names(self) -> dict[Role, str | None]:
        """What its columns are called; None for those that it does not have."""
        with self._readable():
            names = self._column_names()
        found = {role: self.columns.find(role, names) for role in (*self.roles, "time")}
        for role in self.roles:
            if found[role] is None:
                has_header = self._kind == TEXT and self._text_form[1] is None
                where = ", the names in its first line" if has_header else ""
                remedy = ", or, if that line is a link, write a line of names above it" if has_header else ""
                raise InputError(
                    f"{self.path}: has no column {self.columns.wanted(role)} among "
                    f"{', '.join(names)}{where}; name it with --{role}{remedy}"
                )
        for name in names:
            is_used = self.num_features > 0 or name in found.values()
            if is_used and names.count(name) > 1:
                raise InputError(
                    f"{self.path}: has {names.count(name)} columns {name}, but a name is one column's; "
                    "rename the others"
                )
        return found

    @property
    def src(self) -> str:
        name = self.names[self.roles[0]]
        assert name is not None
        return name

    @property
    def dst(self) -> str | None:
        return self.names["dst"] if "dst" in self.roles[1:] else None

    @property
    def time(self) -> str | None:
        return self.names["time"]

    def blocks(self) -> Iterator[FileBlock]:
        """Yield blocks in order, as often as the file is read. A file without rows has none."""
        if self.path.exists() and not self.path.stat().st_size:
            return
        with self._readable():
            for batch in self._batches():
                for start in range(0, len(batch), ROWS_PER_BLOCK):
                    yield self._block(batch.slice(start, ROWS_PER_BLOCK))

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise InputError(f"{self.path}: there is no such file; give one that exists") from error
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise InputError(f"{self.path}: not readable as {self._kind}: {error}; correct it") from error
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

    @cached_property
    def _kind(self) -> str:
        return kind_of(self.path)

    def _column_names(self) -> list[str]:
        if self._kind != TEXT:
            return typed_columns(self.path, self._kind)
        if self._text_form[1] is not None:
            return self._text_form[1]
        return [name.strip() for name in self._header]

    @cached_property
    def _header(self) -> list[str]:
        """The names of columns as a text file has them, perhaps with blanks."""
        with open_input(self.path) as stream:
            lines = EventLines(stream, 0, self._text_form[0].comment)
            return list(pyarrow.csv.open_csv(lines, **self._parsing).schema.names)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        wanted = [name for name in (*self.names.values(), *self._feature_names()) if name is not None]
        if self._kind == TEXT:
            yield from self._text_batches(wanted)
        else:
            ids = [name for name in (self.src, self.dst) if name is not None]
            yield from typed_batches(self.path, self._kind, wanted, ids, ROWS_PER_BLOCK)

    @cached_property
    def _text_form(self) -> tuple[TextForm, list[str] | None]:
        return self.columns.text_form(self.path)

    @property
    def _parsing(self) -> dict[str, Any]:
        """Quoted values may have several lines."""
        delimiter = self._text_form[0].delimiter
        return {"parse_options": pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)}

    def _text_batches(self, wanted: list[str]) -> Iterator[pa.RecordBatch]:
        """Ids and times as they are written, features as numbers; a column that nobody asks for may hold
        anything. The type of a time is no block's to decide for those after it."""
        form, names = self._text_form
        texts = [name for name in self.names.values() if name is not None]
        prepared = self.columns.preparation
        as_written = form.decimal_comma or (prepared is not None and bool(prepared.edge_columns))
        types = {name: pa.string() if name in texts or as_written else pa.float32() for name in wanted}
        if names is None:
            types = {name: types[name.strip()] for name in self._header if name.strip() in types}
        skipped = int(names is not None and form.has_header)
        num_rows = 0
        with open_input(self.path) as stream:
            lines = EventLines(stream, skipped, form.comment)
            for batch in pyarrow.csv.open_csv(
                pa.PythonFile(lines, "r"),
                pyarrow.csv.ReadOptions(block_size=_BLOCK_BYTES, column_names=names),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=types, include_columns=list(types), strings_can_be_null=False
                ),
                **self._parsing,
            ):
                num_rows += len(batch)
                batch = batch.rename_columns([name.strip() for name in batch.schema.names])
                yield self._with_points(batch) if form.decimal_comma else batch
        num_lines = lines.count.num_lines() - (names is None)
        if lines.count.num_quotes and (lines.count.num_quotes % 2 or num_lines != num_rows):
            self._require_closed_quotes(form)

    def _with_points(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Write features 0.5 that are written 0,5."""
        for name in self._feature_names():
            points = pc.replace_substring(batch.column(name), ",", ".")
            batch = batch.set_column(batch.schema.get_field_index(name), name, points)
        return batch

    def _require_closed_quotes(self, form: TextForm) -> None:
        """A quote that is not closed makes one value of all rows after it."""
        with open_input(self.path) as stream:
            text = io.TextIOWrapper(
                io.BufferedReader(stream), encoding="utf-8-sig", errors="replace", newline=""
            )
            found = find_open_quote(text, form.delimiter)
        if found is not None:
            raise InputError(
                f"{self.path} line {found[0] + 1:,}: {found[1]}; correct the quoting of this row"
            )

    def _feature_names(self) -> list[str]:
        """The log's own, or all columns beside ids and time."""
        if not self.num_features:
            return []
        names, used = self._column_names(), self.names.values()
        own = list(self.columns.preparation.features) if self.columns.preparation else []
        if own and not own[0].isdigit():
            if missing := [name for name in own if name not in names]:
                raise InputError(
                    f"{self.path}: lacks feature column {', '.join(missing[:5])}, which events of this log "
                    "have; "
                    "give files with the same features"
                )
            return own
        if own and all(name in names for name in own):
            return own
        names = [name for name in names if name not in used]
        if len(names) != self.num_features:
            raise InputError(
                f"{self.path}: has {len(names)} columns beside source, destination and time, but events of "
                f"this log have {self.num_features} features; give these, in their order"
            )
        return names

    def _block(self, batch: pa.RecordBatch) -> FileBlock:
        dst = None if self.dst is None else self._ids(batch, self.dst)
        batch = pa.record_batch([without_views(column) for column in batch.columns], batch.schema.names)
        time = None if self.time is None else self._times(batch.column(self.time))
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
        prepared = self.columns.preparation
        if prepared is not None and prepared.time_format is not None and pa.types.is_integer(kind):
            return self._times_of_text(pc.cast(column, pa.string()))  # 20240131
        if pa.types.is_decimal(kind):
            column, kind = pc.cast(column, pa.float64()), pa.float64()
        if pa.types.is_duration(kind) and prepared is not None and prepared.time_unit == kind.unit:
            column, kind = pc.cast(column, pa.int64()), pa.int64()
        is_usable = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind)
        if not is_usable or column.null_count:
            wrong = "a value is missing" if column.null_count else f"it holds {kind}, such as {column[0]}"
            raise InputError(f"{self.path}: column {self.time}: {wrong}; give numbers or ISO dates")
        times: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return times

    def _times_of_text(self, column: pa.Array) -> npt.NDArray[Any]:
        prepared = self.columns.preparation
        if prepared is not None and prepared.time_format is not None:
            moments = formatted_nanoseconds(column, prepared.time_format)
            if moments is not None:
                return _dates(moments)
        if prepared is not None and prepared.text is not None and prepared.text.decimal_comma:
            column = pc.replace_substring(column, ",", ".")
        for kind in (pa.int64(), pa.float64()):
            if (numbers := cast_or_none(column, kind)) is not None and not numbers.null_count:
                times: npt.NDArray[Any] = numbers.to_numpy()
                return times if kind == pa.int64() else _exact(column, times)
        if (nanoseconds := iso_nanoseconds(column)) is not None and not column.null_count:
            return _dates(nanoseconds)
        is_missing = column.null_count or pc.any(pc.is_in(column, pa.array(_NO_TIMES))).as_py()
        wrong = "a value is missing" if is_missing else f"it holds text, such as {_no_number_in(column)}"
        raise InputError(f"{self.path}: column {self.time}: {wrong}; give numbers or ISO dates")

    def _features(self, batch: pa.RecordBatch) -> npt.NDArray[np.float32]:
        prepared = self.columns.preparation
        own = prepared is not None and self._feature_names() == list(prepared.features)
        if prepared is not None and prepared.edge_columns and own:
            try:
                raw = raw_values(prepared.edge_columns, batch.column)
            except InputError as error:
                raise InputError(f"{self.path}: {error}") from error
            return transform(prepared.edge_columns, raw)
        names = self._feature_names()
        rows = np.column_stack([_numbers(batch.column(name)) for name in names])
        if not np.isfinite(rows).all():
            raise InputError(f"{self.path}: a feature is missing or not finite; correct it")
        return rows.astype(np.float32)


def content_key(path: Path) -> str:
    """Tells whether two hosts hold the same file; a folder, or what is not there, is told by its name."""
    if not path.is_file():
        return path.name
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            checksum = zlib.crc32(block, checksum)
    return f"{path.stat().st_size:,} bytes, checksum {checksum:08x}"


def _numbers(column: pa.Array) -> npt.NDArray[np.float32]:
    """A column of numbers, or of lists of them."""
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    flat = pc.list_flatten(column) if is_list or pa.types.is_fixed_size_list(column.type) else column
    numbers: npt.NDArray[np.float32] = pc.cast(flat, pa.float32()).to_numpy(zero_copy_only=False)
    return numbers.reshape(len(column), -1)


def _dates(nanoseconds: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Return dates, in the finer of two units only if they need it."""
    if (nanoseconds % 1000).any():
        return nanoseconds.view("datetime64[ns]")
    return (nanoseconds // 1000).view("datetime64[us]")


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
