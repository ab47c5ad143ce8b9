"""Typed sources as record batches: Parquet, Arrow IPC and Feather, JSON lines, and tables in memory."""

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from data_prep.places import Place
from data_prep.raw_files import RawFile, unreadable
from data_prep.values import NoEvents
from tpnet_dist.errors import InputError
from tpnet_dist.events.preparation import SourceRecord

ROWS_PER_BATCH = 1 << 17
HEAD_ROWS = 2000
_BLOCK_BYTES = 16 << 20


class TableReader(Protocol):
    """Batches of one table, in order."""

    name: str
    num_bytes: int
    schema: pa.Schema

    def head(self) -> pa.RecordBatch:
        """The first rows, with all columns."""
        ...

    def batches(self, columns: list[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield batches with at least these columns, and how many bytes have been read."""
        ...

    def about(self) -> str: ...

    def record(self) -> SourceRecord | None: ...


class ParquetReader:
    """Row group by row group; only columns that are asked for are read."""

    def __init__(self, place: Place) -> None:
        self.place, self.name, self.num_bytes = place, place.name, place.num_bytes
        try:
            self._file = pq.ParquetFile(place.open(), pre_buffer=not place.is_local)
            self.schema = self._file.schema_arrow
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _damaged(self.name, "is not readable as Parquet", error) from error
        _require_names(self.name, self.schema)

    def head(self) -> pa.RecordBatch:
        return _first(self.schema, (batch for batch, _ in self._read(None, HEAD_ROWS)))

    def batches(self, columns: list[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        return self._read(columns, ROWS_PER_BATCH)

    def _read(self, columns: list[str] | None, size: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        footer, rows = self._file.metadata, 0
        for group in range(footer.num_row_groups):
            try:
                for batch in self._file.iter_batches(size, row_groups=[group], columns=columns):
                    rows += batch.num_rows
                    yield batch, self.num_bytes * rows // max(1, footer.num_rows)
            except (pa.ArrowException, OSError) as error:
                raise _damaged(self.name, f"row group {group} cannot be read", error) from error

    def about(self) -> str:
        footer = self._file.metadata
        return f"Parquet, {footer.num_rows:,} rows in {footer.num_row_groups:,} row groups"

    def record(self) -> SourceRecord:
        return self.place.record()


class IpcReader:
    """Arrow IPC files, which Feather is, and streams."""

    def __init__(self, place: Place) -> None:
        self.place, self.name, self.num_bytes = place, place.name, place.num_bytes
        with self._opened() as (reader, _):
            self.schema = reader.schema
        _require_names(self.name, self.schema)

    def head(self) -> pa.RecordBatch:
        return _first(self.schema, (batch for batch, _ in self.batches([])))

    def batches(self, columns: list[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        with self._opened() as (reader, file):
            number = 0
            try:
                if isinstance(reader, pa.RecordBatchFileReader):
                    for number in range(reader.num_record_batches):
                        yield reader.get_batch(number), file.tell()
                else:
                    for batch in reader:
                        yield batch, file.tell()
            except (pa.ArrowException, OSError) as error:
                raise _damaged(self.name, f"record batch {number} cannot be read", error) from error

    def _opened(self) -> "_OpenedIpc":
        return _OpenedIpc(self.place)

    def about(self) -> str:
        return "Arrow IPC"

    def record(self) -> SourceRecord:
        return self.place.record()


class _OpenedIpc:
    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> tuple[Any, pa.NativeFile]:
        self._file = self._place.open()
        is_file = self._file.read(6) == b"ARROW1"
        self._file.seek(0)
        try:
            return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(self._file), self._file
        except (pa.ArrowException, OSError) as error:
            raise _damaged(self._place.name, "is not readable as Arrow IPC", error) from error

    def __exit__(self, *_: object) -> None:
        self._file.close()


class JsonLinesReader:
    """One object a line. Types are found block by block: a number may become a fraction later on."""

    def __init__(self, place: Place) -> None:
        self.place, self.name, self.num_bytes = place, place.name, place.num_bytes
        self._as_text: list[str] = []
        head = next(self._blocks(1 << 20), None)
        if head is None:
            raise NoEvents(f"{self.name}: the file is empty; give a file with at least one event")
        self._head = head[0]
        self.schema = self._head.schema

    def head(self) -> pa.RecordBatch:
        return self._head.slice(0, HEAD_ROWS)

    def batches(self, columns: list[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        yield from self._blocks(_BLOCK_BYTES)

    def _blocks(self, size: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        rest, row = b"", 0
        with RawFile(self.place) as raw:
            while True:
                try:
                    block = bytes(raw.stream.read(size))
                except OSError as error:
                    raise unreadable(self.place, error) from error
                lines = rest + block
                end = lines.rfind(b"\n") + 1 if block else len(lines)
                lines, rest = lines[:end], lines[end:]
                if lines.strip():
                    table = self._parse(lines, row)
                    for batch in table.combine_chunks().to_batches():
                        row += batch.num_rows
                        yield batch, raw.bytes_read
                if not block:
                    return

    def _parse(self, lines: bytes, row: int) -> pa.Table:
        """Parse lines. Texts stay texts, also those that look like dates: they may be ids."""
        try:
            table = self._parsed(lines)
            _require_names(self.name, table.schema)
            names = table.column_names
            while dates := [each.name for each in table.schema if pa.types.is_timestamp(each.type)]:
                self._as_text += dates
                table = self._parsed(lines)
            return table.select(names)
        except pa.ArrowInvalid as error:
            raise self._unreadable(str(error), row) from error

    def _parsed(self, lines: bytes) -> pa.Table:
        form = pa.schema([(name, pa.string()) for name in self._as_text])
        return pyarrow.json.read_json(
            io.BytesIO(lines),
            pyarrow.json.ReadOptions(block_size=max(1, 2 * len(lines))),
            pyarrow.json.ParseOptions(explicit_schema=form),
        )

    def _unreadable(self, error: str, row: int) -> InputError:
        text = " ".join(error.split())
        place = re.search(r"in row (\d+)", text)
        where = f"line {row + int(place[1]) + 1:,}" if place else f"after line {row:,}"
        if changed := re.search(r"Column\(/(.+?)\) changed from (\w+) to (\w+)", text):
            name, before, now = changed.groups()
            return InputError(
                f"{self.name} {where}: {name!r} is a {now} after {before}s; write it with one type"
            )
        return InputError(
            f"{self.name} {where}: cannot be read as JSON lines ({text:.160}); correct it, one object a line"
        )

    def about(self) -> str:
        return "JSON lines"

    def record(self) -> SourceRecord:
        return self.place.record()


def _require_names(place: str, schema: pa.Schema) -> None:
    """Refuse names of columns that are no text; Arrow looks at them only when they are asked for."""
    try:
        _ = schema.names
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: the name of a column is not UTF-8 ({error}); correct it") from error


class MemoryReader:
    """A table or a stream of batches in memory, which is read once."""

    def __init__(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        self.name, self.schema, self.num_bytes = name, schema, 0
        self._batches = iter(batches)
        self._read: list[pa.RecordBatch] = []

    def head(self) -> pa.RecordBatch:
        for batch in self._batches:
            self._read.append(batch)
            if batch.num_rows:
                return batch.slice(0, HEAD_ROWS)
        return _first(self.schema, iter(()))

    def batches(self, columns: list[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        while self._read:
            yield self._read.pop(0), 0
        for batch in self._batches:
            yield batch, 0

    def about(self) -> str:
        return "a table in memory"

    def record(self) -> None:
        return None


class WithPartitions:
    """A reader, and columns from the names of folders."""

    def __init__(self, reader: TableReader, partitions: Mapping[str, str | None]) -> None:
        self._reader, self.name, self.num_bytes = reader, reader.name, reader.num_bytes
        self._partitions = {key: each for key, each in partitions.items() if key not in reader.schema.names}
        fields = [*reader.schema, *(pa.field(key, pa.string()) for key in self._partitions)]
        self.schema = pa.schema(fields)

    def head(self) -> pa.RecordBatch:
        return self._extended(self._reader.head())

    def batches(self, columns: list[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
        in_file = [name for name in columns if name not in self._partitions]
        for batch, num_bytes in self._reader.batches(in_file):
            yield self._extended(batch), num_bytes

    def about(self) -> str:
        return self._reader.about()

    def record(self) -> SourceRecord | None:
        return self._reader.record()

    def _extended(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for key, value in self._partitions.items():
            batch = batch.append_column(key, pa.repeat(pa.scalar(value, pa.string()), batch.num_rows))
        return batch


def _first(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
    """The first rows; a batch without rows if there are none."""
    found = next((batch for batch in batches if batch.num_rows), None)
    if found is None:
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    return found.slice(0, HEAD_ROWS)


def _damaged(name: str, what: str, error: Exception) -> InputError:
    text = " ".join(str(error).split())
    return InputError(f"{name}: {what} ({text:.160}); the file is damaged, write or fetch it again")
