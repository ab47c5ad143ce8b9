"""Open a data folder and stream any range of its events across shard borders in bounded memory."""

import bisect
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.errors import InputError
from tpnet_dist.events.features import (
    EDGE_FEATURES_NAME,
    NODE_FEATURES_NAME,
    FeatureParts,
    Features,
    joined_features,
    map_features,
)
from tpnet_dist.events.file_records import FeatureRecord, FileRecord, describe_file
from tpnet_dist.events.manifest import MANIFEST_NAME, Manifest, read_manifest
from tpnet_dist.events.shards import (
    COLUMNS,
    EVENTS_PER_ROW_GROUP,
    LOG_ID_KEY,
    SHARD_NUMBER_KEY,
    EventColumns,
    Times,
    concatenate,
)
from tpnet_dist.files.read_ahead import read_ahead

_LARGE = 2**31
"""Bytes of text that 32-bit offsets cannot reach."""


class EventLog:
    """A complete data folder. Opening checks presence, sizes and identity; `verify` also the hashes."""

    def __init__(self, folder: Path | str, *, log_id: str | None = None) -> None:
        """`log_id`: the id that the log had before events were appended, to open it as it was then."""
        self.folder = Path(folder)
        self.manifest: Manifest = _as_it_was(self.folder, log_id)
        for record in self.manifest.files():
            _check_size(self.folder, record)
        for number in range(len(self.manifest.shards)):
            self._check_footer(number)
        for record in self.manifest.files():
            if isinstance(record, FeatureRecord):
                map_features(self.folder, record)
        for name in (EDGE_FEATURES_NAME, NODE_FEATURES_NAME):
            listed = {record.file for record in self.manifest.files()}
            if name not in listed and (self.folder / name).exists():
                raise InputError(
                    f"{self.folder / name}: lies in the folder, but the manifest does not list it; "
                    "restore the manifest or convert again"
                )
        self._shard_starts = [0, *accumulate(shard.rows for shard in self.manifest.shards)]

    def __len__(self) -> int:
        return self.manifest.events

    def __repr__(self) -> str:
        manifest = self.manifest
        span = f"times {manifest.first_time:,} to {manifest.last_time:,} {manifest.time_unit}"
        return f"EventLog({self.folder}: {len(self):,} events, {self.num_nodes:,} nodes, {span})"

    @property
    def num_nodes(self) -> int:
        return self.manifest.nodes

    @property
    def shape(self) -> LogShape:
        node, edge = self.manifest.node_features, self.manifest.edge_features
        return LogShape(len(self), self.num_nodes, node.width if node else 0, edge.width if edge else 0)

    @cached_property
    def edge_features(self) -> Features | FeatureParts | None:
        return joined_features(self.folder, self._records("edge_features"))

    @cached_property
    def node_features(self) -> Features | FeatureParts | None:
        return joined_features(self.folder, self._records("node_features"))

    def raw_ids(self) -> pa.Table:
        """Return a table of the nodes' raw ids: row = dense id; columns raw_id, degree (of events up to the
        version of the log that brought the node) and, if bipartite, side."""
        parts = [self._raw_ids_in(record) for record in self.manifest.parts_of("node_ids")]
        table = parts[0]
        if len(parts) > 1:
            is_long = sum(part.column("raw_id").nbytes for part in parts) >= _LARGE
            raw_id = "large_string" if is_long else self.manifest.raw_id_dtype
            field = pa.field("raw_id", pa.type_for_alias(raw_id))
            schema = table.schema.set(table.schema.get_field_index("raw_id"), field).remove_metadata()
            table = pa.concat_tables([part.cast(schema) for part in parts])
        if len(table) != self.num_nodes:
            raise InputError(
                f"{self.folder / self.manifest.node_ids.file}: {len(table):,} rows for {self.num_nodes:,} "
                "nodes; restore it or convert again"
            )
        return table

    def _raw_ids_in(self, record: FileRecord) -> pa.Table:
        path = self.folder / record.file
        try:
            return pq.read_table(path, page_checksum_verification=True)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path}: unreadable Parquet ({error}); restore it or convert again") from error

    def _records(self, name: str) -> list[FeatureRecord]:
        return [each for each in self.manifest.parts_of(name) if isinstance(each, FeatureRecord)]

    def seconds(self, time: Times) -> npt.NDArray[np.float64]:
        """Return seconds since the first event; exact for integers, where float32 Unix time has 128 s
        steps."""
        since_first: npt.NDArray[np.float64] = (time - self.manifest.first_time).astype(np.float64)
        return since_first * self.manifest.seconds_per_tick

    def read(self, start: int, stop: int) -> EventColumns:
        """Return events start … stop-1 as one block."""
        parts = list(self.stream(start, stop, chunk_events=max(EVENTS_PER_ROW_GROUP, stop - start), ahead=0))
        return concatenate(parts) if parts else self._no_events()

    def stream(
        self,
        start: int = 0,
        stop: int | None = None,
        *,
        chunk_events: int = EVENTS_PER_ROW_GROUP,
        ahead: int = 2,
    ) -> Iterator[EventColumns]:
        """Yield the range in order, at most `chunk_events` at a time, `ahead` chunks prepared in a thread."""
        stop = len(self) if stop is None else stop
        if not 0 <= start <= stop <= len(self):
            raise ValueError(f"events {start}…{stop} are not within this log's 0…{len(self)}")
        return read_ahead(self._chunks(start, stop, chunk_events), ahead)

    def verify(self) -> Iterator[FileRecord]:
        """Re-hash file after file, yielding each one found intact."""
        for record in self.manifest.files():
            if describe_file(self.folder / record.file).sha256 != record.sha256:
                raise InputError(
                    f"{self.folder / record.file}: sha256 differs from the manifest's {record.sha256[:12]}…, "
                    "so the file was changed or damaged; restore it or convert again"
                )
            yield record
        self._verify_ends()

    def _verify_ends(self) -> None:
        self.raw_ids()
        ends = [self.read(number, number + 1).time[0].item() for number in (0, len(self) - 1)]
        if ends != [self.manifest.first_time, self.manifest.last_time]:
            raise InputError(
                f"{self.folder / MANIFEST_NAME}: first_time and last_time are {self.manifest.first_time} and "
                f"{self.manifest.last_time}, but events are from {ends[0]} to {ends[1]}; "
                "restore it or convert again"
            )

    def _chunks(self, start: int, stop: int, chunk_events: int) -> Iterator[EventColumns]:
        shard = bisect.bisect_right(self._shard_starts, start) - 1
        while start < stop:
            shard_start, shard_stop = self._shard_starts[shard : shard + 2]
            last = min(stop, shard_stop)
            yield from self._chunks_of_shard(shard, start - shard_start, last - shard_start, chunk_events)
            start, shard = last, shard + 1

    def _chunks_of_shard(
        self, number: int, start: int, stop: int, chunk_events: int
    ) -> Iterator[EventColumns]:
        """Decode only the row groups that overlap start … stop-1."""
        path = self.folder / self.manifest.shards[number].file
        try:
            # to fetch a whole shard beforehand takes Arrow 28 MiB where this takes 8, and is no faster
            with pq.ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as shard:
                footer = shard.metadata
                self._check_identity(number, footer)  # the folder may have been replaced meanwhile
                sizes = (footer.row_group(group).num_rows for group in range(footer.num_row_groups))
                borders = [0, *accumulate(sizes)]
                groups = [i for i, (a, b) in enumerate(pairwise(borders)) if a < stop and b > start]
                position = borders[groups[0]]
                for batch in _batches(shard, groups, chunk_events):
                    columns = EventColumns(*(batch.column(name).to_numpy() for name in COLUMNS))
                    wanted = columns[max(0, start - position) : max(0, stop - position)]
                    position += len(columns)
                    if len(wanted):
                        yield wanted
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path}: unreadable Parquet ({error}); restore it or convert again") from error

    def _check_footer(self, number: int) -> None:
        path = self.folder / self.manifest.shards[number].file
        try:
            footer = pq.read_metadata(path)
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"{path}: not a readable Parquet shard ({error}); restore it or convert again"
            ) from error
        self._check_identity(number, footer)

    def _check_identity(self, number: int, footer: pq.FileMetaData) -> None:
        shard, metadata = self.manifest.shards[number], footer.metadata or {}
        path = self.folder / shard.file
        log_id, wanted = metadata.get(LOG_ID_KEY, b"").decode(), self.manifest.log_id_of_shard(number)
        if log_id != wanted:
            raise InputError(
                f"{path}: belongs to event log {log_id or 'unknown'}, this folder is {wanted}; "
                "restore the right shard or convert again"
            )
        if metadata.get(SHARD_NUMBER_KEY) != str(number).encode() or footer.num_rows != shard.rows:
            raise InputError(
                f"{path}: is not shard {number} with {shard.rows:,} events as the manifest says; "
                "restore the right shard or convert again"
            )

    def _no_events(self) -> EventColumns:
        ids, label = np.empty(0, np.int32), np.empty(0, np.float32)
        return EventColumns(ids, ids, np.empty(0, self.manifest.time_dtype), label)


def _as_it_was(folder: Path, log_id: str | None) -> Manifest:
    manifest = read_manifest(folder)
    then = manifest if log_id is None else manifest.at(log_id)
    if then is None:
        raise InputError(
            f"{folder}: was never event log {log_id}, it is {manifest.log_id}; give the data folder that was"
        )
    return then


def _batches(shard: pq.ParquetFile, groups: list[int], most: int) -> Iterator[pa.RecordBatch]:
    """Read one group at a time, since Arrow keeps what it has read of all that it is asked for together."""
    for group in groups:
        yield from shard.iter_batches(most, row_groups=[group], columns=list(COLUMNS))


def _check_size(folder: Path, record: FileRecord) -> None:
    path = folder / record.file
    if not path.is_file():
        raise InputError(f"{path}: missing, but the manifest lists it; restore it or convert again")
    if (size := path.stat().st_size) != record.bytes:
        raise InputError(
            f"{path}: {size:,} bytes where the manifest says {record.bytes:,}, so it was cut short "
            "or replaced; restore it or convert again"
        )
