"""Small event logs for tests."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tpnet_dist.events import EventColumns, EventLog
from tpnet_dist.events.features import EDGE_FEATURES_NAME, NODE_FEATURES_NAME, Features, FeatureWriter
from tpnet_dist.events.file_records import FeatureRecord
from tpnet_dist.events.writer import EventLogWriter


def write_log(
    folder: Path,
    src: Sequence[int] | npt.NDArray[np.integer],
    dst: Sequence[int] | npt.NDArray[np.integer],
    time: Sequence[float] | npt.NDArray[np.number],
    *,
    events_per_shard: int = 1000,
    num_nodes: int | None = None,
    labels: Sequence[float] | npt.NDArray[np.number] | None = None,
    edge_features: Features | None = None,
    node_features: Features | None = None,
    raw_ids: pa.Table | None = None,
) -> EventLog:
    """Write the events and open them; whole times become int64, labels are the event numbers if not given,
    raw ids the dense ones."""
    times = np.asarray(time)
    times = times.astype(np.int64 if np.issubdtype(times.dtype, np.integer) else np.float64)
    sources, destinations = np.asarray(src, np.int32), np.asarray(dst, np.int32)
    label = np.arange(len(times)) if labels is None else labels
    num_nodes = int(max(sources.max(), destinations.max())) + 1 if num_nodes is None else num_nodes
    folder.mkdir(parents=True, exist_ok=True)
    writer = EventLogWriter(
        folder, log_id="test", time_dtype=str(times.dtype), events_per_shard=events_per_shard
    )
    writer.append(EventColumns(sources, destinations, times, np.asarray(label, np.float32)))
    writer.finish(
        raw_ids or pa.table({"raw_id": np.arange(num_nodes)}),
        source={},
        bipartite=raw_ids is not None and "side" in raw_ids.column_names,
        has_labels=labels is not None,
        edge_features=_write_features(folder / EDGE_FEATURES_NAME, edge_features),
        node_features=_write_features(folder / NODE_FEATURES_NAME, node_features),
    )
    return EventLog(folder)


def _write_features(path: Path, features: Features | None) -> FeatureRecord | None:
    if features is None:
        return None
    with FeatureWriter(path, features.shape[1]) as writer:
        writer.append(features)
    return writer.record()


def random_log(
    folder: Path, num_events: int, num_nodes: int, *, seed: int = 0, events_per_shard: int = 1000
) -> EventLog:
    """Random ends; integer times with many ties."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, num_nodes, (2, num_events))
    time = np.sort(rng.integers(0, max(2, num_events // 2), num_events))
    return write_log(folder, src, dst, time, events_per_shard=events_per_shard, num_nodes=num_nodes)
