"""The event columns as Parquet shards: their schema and the writer that cuts a stream into them."""

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tpnet_dist.events.file_records import ShardRecord, describe_file

EVENTS_PER_SHARD = 4_000_000
EVENTS_PER_ROW_GROUP = 100_000
LOG_ID_KEY = b"tpnet_dist.log_id"
SHARD_NUMBER_KEY = b"tpnet_dist.shard"
COLUMNS = ("src", "dst", "time", "label")

Times = npt.NDArray[np.int64] | npt.NDArray[np.float64]


@dataclass(frozen=True)
class EventColumns:
    """Consecutive events, one array per column."""

    src: npt.NDArray[np.int32]
    dst: npt.NDArray[np.int32]
    time: Times
    label: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.src)

    def __getitem__(self, rows: slice) -> "EventColumns":
        return EventColumns(self.src[rows], self.dst[rows], self.time[rows], self.label[rows])


def concatenate(parts: list[EventColumns]) -> EventColumns:
    if len(parts) == 1:
        return parts[0]
    return EventColumns(*(np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS))


def shard_name(number: int) -> str:
    return f"events-{number:05d}.parquet"


class ShardWriter:
    """Cut an event stream into shards of `events_per_shard`; `records` tells what was written."""

    def __init__(
        self,
        folder: Path,
        *,
        log_id: str,
        time_dtype: str,
        events_per_shard: int = EVENTS_PER_SHARD,
        first_number: int = 0,
    ) -> None:
        """`first_number`: the number of shards the log has already."""
        self.records: list[ShardRecord] = []
        self._folder, self._first_number = folder, first_number
        self._log_id = log_id
        self._events_per_shard = events_per_shard
        self._fields = [("src", pa.int32()), ("dst", pa.int32())]
        self._fields += [("time", pa.type_for_alias(time_dtype)), ("label", pa.float32())]
        self._pending: list[EventColumns] = []
        self._num_pending = 0
        self._open_shard: pq.ParquetWriter | None = None
        self._open_rows = 0

    def append(self, events: EventColumns) -> None:
        self._pending.append(events)
        self._num_pending += len(events)
        if self._num_pending >= EVENTS_PER_ROW_GROUP:
            self._flush(keep_remainder=True)

    def close(self) -> None:
        self._flush(keep_remainder=False)
        self._close_shard()

    @property
    def _number(self) -> int:
        """The number of the shard that is written."""
        return self._first_number + len(self.records)

    def _flush(self, *, keep_remainder: bool) -> None:
        """Write pending events in whole row groups; the stream's last one may be short."""
        if not self._num_pending:
            return
        events, start = concatenate(self._pending), 0
        while start < len(events):
            size = min(EVENTS_PER_ROW_GROUP, self._events_per_shard - self._open_rows)
            if keep_remainder and len(events) - start < size:
                break
            self._write_row_group(events[start : start + size])
            start += size
        self._pending = [events[start:]]
        self._num_pending = max(0, len(events) - start)

    def _write_row_group(self, events: EventColumns) -> None:
        if self._open_shard is None:
            self._open_shard = self._start_shard()
        columns = [getattr(events, name) for name in COLUMNS]
        table = pa.Table.from_arrays([pa.array(column) for column in columns], schema=self._open_shard.schema)
        self._open_shard.write_table(table, row_group_size=EVENTS_PER_ROW_GROUP)
        self._open_rows += len(events)
        if self._open_rows == self._events_per_shard:
            self._close_shard()

    def _start_shard(self) -> pq.ParquetWriter:
        number = self._number
        identity = {LOG_ID_KEY: self._log_id.encode(), SHARD_NUMBER_KEY: str(number).encode()}
        time_is_whole = dict(self._fields)["time"] == pa.int64()
        return pq.ParquetWriter(
            self._folder / shard_name(number),
            pa.schema(self._fields, metadata=identity),
            compression="zstd",
            write_page_checksum=True,
            use_dictionary=["label"],
            column_encoding={
                "src": "PLAIN",
                "dst": "PLAIN",
                "time": "DELTA_BINARY_PACKED" if time_is_whole else "BYTE_STREAM_SPLIT",
            },
        )

    def _close_shard(self) -> None:
        if self._open_shard is None:
            return
        self._open_shard.close()
        described = describe_file(self._folder / shard_name(self._number))
        self.records.append(ShardRecord(**asdict(described), rows=self._open_rows))
        self._open_shard, self._open_rows = None, 0
