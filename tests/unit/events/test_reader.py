"""What is written to a data folder is what is read from it, and a folder is whole or absent."""

import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.event_logs import random_log, write_log
from tests.support.sentences import refused
from tpnet_dist.events import EventColumns, EventLog
from tpnet_dist.events.manifest import MANIFEST_NAME, read_manifest, write_manifest
from tpnet_dist.events.shards import COLUMNS, EVENTS_PER_ROW_GROUP, concatenate
from tpnet_dist.events.writer import EventLogWriter

NUM_EVENTS = 200


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return random_log(tmp_path_factory.mktemp("log"), NUM_EVENTS, 20, events_per_shard=17)


def assert_same(found, wanted):
    for name in COLUMNS:
        assert getattr(found, name).dtype == getattr(wanted, name).dtype
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


def columns(num_events, time, seed=0):
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 50, (2, num_events), dtype=np.int32)
    return EventColumns(src, dst, time, rng.random(num_events, dtype=np.float32))


@settings(deadline=None)
@given(
    bounds=st.tuples(st.integers(0, NUM_EVENTS), st.integers(0, NUM_EVENTS)).map(sorted),
    chunk_events=st.integers(1, 60),
    ahead=st.integers(0, 3),
)
def test_any_range_across_shards_equals_the_source(log, bounds, chunk_events, ahead):
    everything = log.read(0, NUM_EVENTS)
    np.testing.assert_array_equal(everything.label, np.arange(NUM_EVENTS))
    wanted = everything[slice(*bounds)]
    assert_same(log.read(*bounds), wanted)
    chunks = list(log.stream(*bounds, chunk_events=chunk_events, ahead=ahead))
    assert all(0 < len(chunk) <= chunk_events for chunk in chunks)
    assert_same(concatenate([everything[:0], *chunks]), wanted)


@settings(deadline=None, max_examples=40)
@given(
    num_events=st.integers(1, 120),
    events_per_shard=st.integers(1, 50),
    cuts=st.lists(st.integers(0, 120), max_size=5),
)
def test_events_do_not_depend_on_how_they_were_appended_or_sharded(
    tmp_path_factory, num_events, events_per_shard, cuts
):
    folder, events = tmp_path_factory.mktemp("log"), columns(num_events, np.arange(num_events))
    writer = EventLogWriter(folder, log_id="x", time_dtype="int64", events_per_shard=events_per_shard)
    for start, stop in pairwise([0, *sorted(cuts), 120]):
        writer.append(events[start:stop])
    writer.finish(pa.table({"raw_id": np.arange(50)}), source={})
    log = EventLog(folder)
    assert len(log) == num_events
    assert [shard.rows for shard in log.manifest.shards[:-1]] == [events_per_shard] * (
        (num_events - 1) // events_per_shard
    )
    assert_same(log.read(0, num_events), events)


def test_ranges_across_row_groups_of_large_shards_equal_the_source(tmp_path):
    num_events = 2 * EVENTS_PER_ROW_GROUP + 50_007
    events = columns(num_events, np.arange(num_events))
    writer = EventLogWriter(tmp_path, log_id="x", time_dtype="int64", events_per_shard=220_000)
    for start in range(0, num_events, 70_001):
        writer.append(events[start : start + 70_001])
    writer.finish(pa.table({"raw_id": np.arange(50)}), source={})
    log = EventLog(tmp_path)
    for start, stop in ((0, num_events), (99_999, 100_001), (150_000, 230_000), (219_999, 220_001)):
        assert_same(log.read(start, stop), events[start:stop])
        chunks = list(log.stream(start, stop, chunk_events=30_000))
        assert max(map(len, chunks)) <= 30_000
        assert_same(concatenate(chunks), events[start:stop])


def test_reading_one_event_of_a_full_row_group_does_not_cost_a_loop_over_it(tmp_path):
    nodes = np.zeros(EVENTS_PER_ROW_GROUP, np.int32)
    log = write_log(tmp_path, nodes, nodes, np.arange(len(nodes)), events_per_shard=len(nodes))
    start = time.monotonic()
    assert log.read(77_777, 77_778).time.tolist() == [77_777]
    assert time.monotonic() - start < 1


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30)
    | st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30)
)
def test_whole_and_fractional_times_survive_to_the_last_bit(tmp_path_factory, times):
    times = np.sort(np.array(times))
    ends = np.zeros(len(times), np.int32)
    log = write_log(tmp_path_factory.mktemp("log"), ends, ends, times, events_per_shard=8)
    assert log.read(0, len(times)).time.tobytes() == times.tobytes()
    assert (log.manifest.first_time, log.manifest.last_time) == (times[0].item(), times[-1].item())
    assert log.read(0, 0).time.dtype == times.dtype


def test_seconds_count_from_the_first_event_without_losing_nanoseconds(tmp_path):
    first = 1_700_000_000_000_000_000
    writer = EventLogWriter(tmp_path, log_id="x", time_dtype="int64", time_unit="ns")
    writer.append(columns(3, np.array([first, first + 1, first + 2_000_000_000])))
    writer.finish(pa.table({"raw_id": np.arange(50)}), source={})
    log = EventLog(tmp_path)
    assert log.seconds(log.read(0, 3).time).tolist() == [0.0, 1e-9, 2.0]


@pytest.mark.parametrize("bounds", [(-1, 5), (5, 3), (0, NUM_EVENTS + 1)])
def test_ranges_outside_the_log_are_refused(log, bounds):
    with pytest.raises(ValueError, match="not within this log"):
        log.read(*bounds)


def test_raw_ids_are_rows_by_dense_id(log):
    assert log.raw_ids().column("raw_id").to_pylist() == list(range(20))


# A folder that is not what its manifest says


def test_verify_yields_every_file_of_an_intact_folder(tmp_path):
    log = random_log(tmp_path, 50, 5, events_per_shard=20)
    names = {record.file for record in log.verify()}
    assert names == {path.name for path in tmp_path.iterdir()} - {MANIFEST_NAME}


def test_a_flipped_byte_is_found_by_verify(tmp_path):
    log = random_log(tmp_path, 50, 5)
    flip_byte(tmp_path / "events-00000.parquet", 30)
    with refused():
        list(log.verify())


def test_damage_that_cannot_be_decoded_names_the_shard_and_a_remedy(tmp_path):
    log = random_log(tmp_path, 5000, 100, events_per_shard=5000)
    path = tmp_path / "events-00000.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(2000) + whole[2004:])
    with refused():
        log.read(0, 5000)
    path.write_bytes(whole[:-500] + bytes(492) + whole[-8:])
    with refused():
        EventLog(tmp_path)


def test_a_missing_or_cut_shard_is_refused_on_opening(tmp_path):
    random_log(tmp_path, 50, 5, events_per_shard=20)
    path = tmp_path / "events-00001.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    with refused(varies=r"[\d,]+(?= bytes where)"):
        EventLog(tmp_path)
    path.unlink()
    with refused():
        EventLog(tmp_path)


def test_swapped_shards_and_shards_of_another_log_are_refused(tmp_path):
    random_log(tmp_path, 40, 5, events_per_shard=20)
    manifest = read_manifest(tmp_path)
    first, second = manifest.shards
    write_manifest(tmp_path, replace(manifest, shards=(second, first)))
    with refused():
        EventLog(tmp_path)
    write_manifest(tmp_path, replace(manifest, log_id="another"))
    with refused():
        EventLog(tmp_path)


def test_a_manifest_whose_count_disagrees_with_the_shards_is_refused(tmp_path):
    random_log(tmp_path, 40, 5)
    write_manifest(tmp_path, replace(read_manifest(tmp_path), events=41))
    with refused():
        EventLog(tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"events": 40', '"events": 39'),
        ('"format_version": 2', '"format_version": 4'),
        ("{", ""),
        (None, "[1]"),
    ],
)
def test_an_edited_manifest_is_refused_with_the_reason(tmp_path, old, new):
    random_log(tmp_path, 40, 5)
    path = tmp_path / MANIFEST_NAME
    path.write_text(path.read_text().replace(old, new, 1) if old else new)
    with refused():
        EventLog(tmp_path)


def test_a_folder_without_manifest_is_no_dataset(tmp_path):
    with refused():
        EventLog(tmp_path)
    with refused():
        EventLog(tmp_path / "absent")


def test_a_file_is_no_data_folder_but_can_be_made_one(tmp_path):
    file = tmp_path / "events.csv"
    file.write_text("src,dst,time\n")
    with refused():
        EventLog(file)


def flip_byte(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)
