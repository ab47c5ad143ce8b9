"""The fast path through a text file: Arrow's CSV reader, chunk by chunk, in bounded memory."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from data_prep.layout import Table
from data_prep.raw_files import RawFile, unreadable
from data_prep.values import Rejected, TimeUnit, finite, parse_feature_rows, parse_times
from tpnet_dist.events.shards import Times

_BLOCK_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Consecutive rows of one file; ids still as written."""

    first_row: int
    bytes_read: int
    """How much of the file has been read, on disk."""
    src: pa.Array
    dst: pa.Array
    time: Times
    label: npt.NDArray[np.float32] | None
    features: npt.NDArray[np.float32] | None
    feature_row: npt.NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.time)


class ChunkRejected(Exception):
    """Some row from `first_row` on breaks a rule."""

    def __init__(self, first_row: int) -> None:
        self.first_row = first_row


def stream_chunks(table: Table, unit: TimeUnit) -> Iterator[Chunk]:
    """Parse the file in order."""
    first_row = 0
    raw = RawFile(table.path)  # not closed here: Arrow may still be reading ahead when we stop
    try:
        for batch in _open(raw, table):
            yield _parse(batch, table, unit, first_row, raw.bytes_read)
            first_row += batch.num_rows
    except (pa.ArrowInvalid, Rejected):
        raise ChunkRejected(first_row) from None
    except OSError as error:
        raise unreadable(table.path, error) from error


def _open(raw: RawFile, table: Table) -> "pyarrow.csv.CSVStreamingReader":
    names = [str(position) for position in range(len(table.names))]
    numeric = {str(position): pa.float32() for position in (table.label, *table.features)}
    types = {str(position): numeric.get(str(position), pa.string()) for position in table.used}
    return pyarrow.csv.open_csv(
        raw.stream,
        pyarrow.csv.ReadOptions(
            block_size=_BLOCK_BYTES, column_names=names, skip_rows=table.lines_before_rows
        ),
        pyarrow.csv.ParseOptions(delimiter=table.delimiter, newlines_in_values=True),
        pyarrow.csv.ConvertOptions(
            include_columns=list(types), column_types=types, null_values=[], strings_can_be_null=False
        ),
    )


def _parse(batch: pa.RecordBatch, table: Table, unit: TimeUnit, first_row: int, bytes_read: int) -> Chunk:
    def column(position: int) -> pa.Array:
        return batch.column(str(position))

    return Chunk(
        first_row=first_row,
        bytes_read=bytes_read,
        src=column(table.src),
        dst=column(table.dst),
        time=parse_times(column(table.time), unit),
        label=None if table.label is None else finite(column(table.label).to_numpy()),
        features=finite(np.column_stack([column(position).to_numpy() for position in table.features]))
        if table.features
        else None,
        feature_row=None
        if table.feature_row is None
        else parse_feature_rows(column(table.feature_row), below=None),
    )
