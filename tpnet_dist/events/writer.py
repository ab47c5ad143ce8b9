"""Write a whole data folder: shards as the events stream by, then node ids, then the manifest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from tpnet_dist.events.file_records import FeatureRecord, describe_file
from tpnet_dist.events.manifest import Manifest, RawIdType, TickUnit, TimeType, write_manifest
from tpnet_dist.events.preparation import Preparation
from tpnet_dist.events.shards import EVENTS_PER_SHARD, EventColumns, ShardWriter

NODE_IDS_NAME = "node_ids.parquet"


class EventLogWriter:
    """Append events in time order, then `finish`. The folder is the caller's, usually a staged one."""

    def __init__(
        self,
        folder: Path,
        *,
        log_id: str,
        time_dtype: TimeType,
        time_unit: TickUnit = "s",
        events_per_shard: int = EVENTS_PER_SHARD,
    ) -> None:
        self.folder = folder
        self.events = 0
        self._log_id, self._time_dtype, self._time_unit = log_id, time_dtype, time_unit
        self._shards = ShardWriter(
            folder, log_id=log_id, time_dtype=time_dtype, events_per_shard=events_per_shard
        )
        self._first_time: int | float | None = None
        self._last_time: int | float = 0

    def append(self, events: EventColumns) -> None:
        if not len(events):
            return
        if self._first_time is None:
            self._first_time = self._last_time = events.time[0].item()
        assert events.time[0] >= self._last_time, "events come in time order"
        self._last_time = events.time[-1].item()
        self.events += len(events)
        self._shards.append(events)

    def finish(
        self,
        node_ids: pa.Table,
        *,
        source: Mapping[str, Any],
        has_labels: bool = False,
        bipartite: bool = False,
        edge_features: FeatureRecord | None = None,
        node_features: FeatureRecord | None = None,
        preparation: Preparation | None = None,
    ) -> Manifest:
        """Write what is known only after the last event. `node_ids`: row = dense id, column `raw_id`, …"""
        assert self._first_time is not None, "an event log has at least one event"
        self._shards.close()
        pq.write_table(node_ids, self.folder / NODE_IDS_NAME, compression="zstd", write_page_checksum=True)
        manifest = Manifest(
            log_id=self._log_id,
            events=self.events,
            nodes=len(node_ids),
            time_dtype=self._time_dtype,
            time_unit=self._time_unit,
            first_time=self._first_time,
            last_time=self._last_time,
            has_labels=has_labels,
            bipartite=bipartite,
            raw_id_dtype=cast(RawIdType, str(node_ids.schema.field("raw_id").type)),
            shards=tuple(self._shards.records),
            node_ids=describe_file(self.folder / NODE_IDS_NAME),
            edge_features=edge_features,
            node_features=node_features,
            source=dict(source),
            preparation=preparation,
        )
        write_manifest(self.folder, manifest)
        return manifest
