"""Feature files survive to the last bit and are refused when they are not what they should be."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tests.support.sentences import refused
from tpnet_dist.events import EventColumns, EventLog
from tpnet_dist.events.features import EDGE_FEATURES_NAME, FeatureWriter, map_features
from tpnet_dist.events.writer import EventLogWriter


def columns(num_events, time, seed=0):
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 50, (2, num_events), dtype=np.int32)
    return EventColumns(src, dst, time, rng.random(num_events, dtype=np.float32))


@pytest.mark.parametrize("chunks", [[1], [3, 0, 4], [10_000, 2_345]])
def test_features_survive_to_the_last_bit_however_they_are_appended(tmp_path, chunks):
    rows = np.random.default_rng(0).standard_normal((sum(chunks), 5)).astype(np.float32)
    with FeatureWriter(tmp_path / EDGE_FEATURES_NAME, 5) as writer:
        for stop, size in zip(np.cumsum(chunks), chunks, strict=True):
            writer.append(rows[stop - size : stop])
    record = writer.record()
    assert (record.rows, record.width) == rows.shape
    features = map_features(tmp_path, record)
    assert isinstance(features, np.memmap)
    assert features.tobytes() == rows.tobytes()


def test_a_log_maps_the_features_its_manifest_lists(tmp_path):
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    with FeatureWriter(tmp_path / EDGE_FEATURES_NAME, 2) as features:
        features.append(rows)
    writer = EventLogWriter(tmp_path, log_id="x", time_dtype="int64")
    writer.append(columns(3, np.arange(3)))
    writer.finish(pa.table({"raw_id": np.arange(50)}), source={}, edge_features=features.record())
    log = EventLog(tmp_path)
    np.testing.assert_array_equal(log.edge_features, rows)
    assert log.node_features is None


def test_features_of_another_shape_or_kind_than_promised_are_refused(tmp_path):
    with FeatureWriter(tmp_path / EDGE_FEATURES_NAME, 2) as writer:
        writer.append(np.zeros((3, 2), np.float32))
    record = writer.record()
    with refused():
        map_features(tmp_path, replace(record, rows=4))
    (tmp_path / EDGE_FEATURES_NAME).write_bytes(b"no numpy file")
    with refused():
        map_features(tmp_path, record)
