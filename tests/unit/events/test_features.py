"""Feature files survive to the last bit and are refused when they are not what they should be."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tests.support.sentences import refused
from tpnet_dist.errors import InputError
from tpnet_dist.events import EventColumns, EventLog
from tpnet_dist.events.features import EDGE_FEATURES_NAME, CheckedFeatures, FeatureWriter
from tpnet_dist.events.file_records import FeatureRecord
from tpnet_dist.events.page_checksums import PAGE_BYTES
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
    features = CheckedFeatures(tmp_path / EDGE_FEATURES_NAME, record)
    assert features[:].tobytes() == rows.tobytes()
    # other programs find a plain matrix
    assert np.load(tmp_path / EDGE_FEATURES_NAME, mmap_mode="r").tobytes() == rows.tobytes()


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
        CheckedFeatures(tmp_path / EDGE_FEATURES_NAME, replace(record, rows=4))
    (tmp_path / EDGE_FEATURES_NAME).write_bytes(b"no numpy file")
    with refused():
        CheckedFeatures(tmp_path / EDGE_FEATURES_NAME, record)


def written(folder, num_rows=20_000, width=3):
    rows = np.random.default_rng(1).standard_normal((num_rows, width)).astype(np.float32)
    with FeatureWriter(folder / EDGE_FEATURES_NAME, width) as writer:
        writer.append(rows)
    return rows, writer.record()


def test_a_damaged_page_is_named_when_one_of_its_rows_is_read_and_others_are_not(tmp_path):
    rows, record = written(tmp_path)
    path = tmp_path / EDGE_FEATURES_NAME
    content = bytearray(path.read_bytes())
    content[2 * PAGE_BYTES + 5] ^= 1
    path.write_bytes(content)
    features = CheckedFeatures(path, record)
    assert np.array_equal(features[np.array([[0, 7], [5000, 19_999]])], rows[[[0, 7], [5000, 19_999]]])
    row = (2 * PAGE_BYTES + 5) // (4 * 3)
    for chosen in (np.array([1, row]), slice(row - 1, row + 1), slice(None)):
        with pytest.raises(InputError, match=r"edge_features\.npy: bytes 131,072 to 196,608 are not what"):
            features[chosen]


def test_a_row_that_crosses_pages_is_compared_with_both(tmp_path):
    rows, record = written(tmp_path, num_rows=3, width=40_000)
    path = tmp_path / EDGE_FEATURES_NAME
    assert np.array_equal(CheckedFeatures(path, record)[np.array([1])], rows[[1]])
    content = bytearray(path.read_bytes())
    content[4 * PAGE_BYTES + 1] ^= 1  # row 1 lies in pages 2 to 4
    path.write_bytes(content)
    with pytest.raises(InputError):
        CheckedFeatures(path, record)[np.array([1])]


def test_a_file_that_shrinks_while_it_is_in_use_is_one_sentence_and_not_the_end(tmp_path):
    _, record = written(tmp_path)
    features = CheckedFeatures(tmp_path / EDGE_FEATURES_NAME, record)
    with (tmp_path / EDGE_FEATURES_NAME).open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(InputError, match="has become shorter while it was in use"):
        features[np.array([15_000])]


def test_files_of_before_there_were_checksums_are_read(tmp_path):
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.save(tmp_path / EDGE_FEATURES_NAME, rows)
    record = FeatureRecord(file=EDGE_FEATURES_NAME, bytes=152, sha256="0" * 64, rows=3, width=2)
    assert np.array_equal(CheckedFeatures(tmp_path / EDGE_FEATURES_NAME, record)[:], rows)
