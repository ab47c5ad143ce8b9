"""Files of typed columns as record batches: Parquet, Arrow IPC and Feather, JSON lines."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

PARQUET, IPC, STREAM, JSON, TEXT = "Parquet", "Arrow IPC", "Arrow streams", "JSON lines", "CSV with a header"
_MAGIC = {b"PAR1": PARQUET, b"ARROW1": IPC, b"\xff\xff\xff\xff": STREAM, b"{": JSON}
_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
_SUFFIXES = {".parquet": PARQUET, ".feather": IPC, ".arrow": IPC, ".jsonl": JSON, ".ndjson": JSON}


def open_input(path: Path) -> pa.NativeFile:
    """Open a file; whether it is compressed is seen by what it holds, as `convert` does."""
    with path.open("rb") as file:
        start = file.read(4)
    compression = next((name for magic, name in _COMPRESSIONS.items() if start.startswith(magic)), None)
    return pa.input_stream(path, compression=compression)


def kind_of(path: Path) -> str:
    """Tell a file's kind by what it holds, as `convert` does; by its name if that cannot be seen."""
    try:
        with open_input(path) as stream:
            start = bytes(stream.read(4096)).lstrip(b"\xef\xbb\xbf \t\r\n")
    except (OSError, pa.ArrowException):
        start = b""
    found = (kind for magic, kind in _MAGIC.items() if start.startswith(magic))
    return next(found, _SUFFIXES.get(path.suffix, TEXT))


def typed_columns(path: Path, kind: str) -> list[str]:
    """Return the names of its columns."""
    if kind == PARQUET:
        with pq.ParquetFile(path) as file:
            return list(file.schema_arrow.names)
    if kind == IPC:
        with pa.ipc.open_file(path) as reader:
            return list(reader.schema.names)
    with open_input(path) as file:
        reader = pa.ipc.open_stream(file) if kind == STREAM else pyarrow.json.open_json(file)
        return list(reader.schema.names)


def typed_batches(
    path: Path, kind: str, columns: Sequence[str], ids: Sequence[str], rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield batches with these columns, perhaps among others. `ids`: those that JSON is not to take for
    dates."""
    if kind == PARQUET:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(rows, columns=list(columns))
    elif kind == IPC:
        with pa.ipc.open_file(path) as reader:
            yield from (reader.get_batch(number) for number in range(reader.num_record_batches))
    elif kind == STREAM:
        with open_input(path) as file, pa.ipc.open_stream(file) as reader:
            yield from reader
    else:
        yield from _json_batches(path, ids)


def _json_batches(path: Path, ids: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with open_input(path) as file:
        schema = pyarrow.json.open_json(file).schema
    texts = pa.schema([(name, pa.string()) for name in ids if pa.types.is_timestamp(schema.field(name).type)])
    with open_input(path) as file:
        yield from pyarrow.json.open_json(
            file, parse_options=pyarrow.json.ParseOptions(explicit_schema=texts)
        )
