"""`describe`: figures against literal Python, and a view that fits 80 columns."""

import io
import json
import math
import random
from collections import Counter
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from data_prep import measure as measure_module
from data_prep.describe_view import print_summary
from data_prep.measure import LogSummary, ShardSummary, TimeHistogram, events_to_read, measure
from tpnet_dist.events import EventColumns, EventLog
from tpnet_dist.events.features import EDGE_FEATURES_NAME, FeatureWriter
from tpnet_dist.events.writer import EventLogWriter

Event = tuple[int, int, float]


def log_of(folder: Path, events: list[Event], nodes: int, *, events_per_shard=7, unit="s", **finish):
    src, dst, time = zip(*events, strict=True)
    time_dtype = "int64" if all(isinstance(t, int) for t in time) else "float64"
    writer = EventLogWriter(
        folder, log_id="test", time_dtype=time_dtype, time_unit=unit, events_per_shard=events_per_shard
    )
    ids = np.array([src, dst], np.int32)
    writer.append(EventColumns(*ids, np.array(time, time_dtype), np.zeros(len(time), np.float32)))
    names = {"raw_id": np.arange(nodes)}
    if finish.get("bipartite"):
        names["side"] = ["src" if node in src else "dst" for node in range(nodes)]
    writer.finish(pa.table(names), source={}, **finish)
    return EventLog(folder)


def random_events(count: int, nodes: int, seed: int, *, whole_times=True) -> list[Event]:
    """Few nodes and times, so that self-loops, repeated edges and ties all occur."""
    rng = random.Random(seed)
    times = sorted(rng.randrange(1 + count // 3) if whole_times else rng.random() for _ in range(count))
    return [(rng.randrange(nodes), rng.randrange(nodes), time) for time in times]


def summary_of(log: EventLog, **options) -> LogSummary:
    return measure(log, lambda _: None, **options)


def degrees_of(events: list[Event], nodes: int) -> list[int]:
    seen = Counter(node for src, dst, _ in events for node in (src, dst))
    return [seen[node] for node in range(nodes)]


def assert_counts_fit(summary: LogSummary, events: list[Event], nodes: int) -> None:
    groups = [len(list(group)) for _, group in groupby(time for _, _, time in events)]
    assert summary.events == len(events)
    assert summary.nodes == nodes
    assert summary.nodes_with_events == len({node for src, dst, _ in events for node in (src, dst)})
    assert summary.sources == len({src for src, _, _ in events})
    assert summary.destinations == len({dst for _, dst, _ in events})
    assert summary.distinct_times == len({time for _, _, time in events})
    assert summary.largest_equal_time_group == max(groups)
    assert summary.events_per_distinct_time == pytest.approx(len(events) / len(groups))
    assert summary.self_loops == sum(src == dst for src, dst, _ in events)
    assert summary.distinct_edges == len({(src, dst) for src, dst, _ in events})
    assert summary.repeated_edges == len(events) - summary.distinct_edges


def assert_degrees_fit(summary: LogSummary, degrees: list[int]) -> None:
    ordered, total = sorted(degrees), sum(degrees)
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        assert getattr(summary.degree, name) == ordered[math.ceil(round(share * len(ordered), 9)) - 1]
    assert (summary.degree.min, summary.degree.max) == (ordered[0], ordered[-1])
    assert summary.degree.mean == pytest.approx(total / len(degrees))
    for balance, ranks in zip(summary.block_balance, (2, 4, 8), strict=True):
        size = math.ceil(len(degrees) / ranks)
        fullest = max(sum(degrees[start : start + size]) for start in range(0, len(degrees), size))
        assert balance.blocks == ranks
        assert balance.largest_over_fair == pytest.approx(fullest / (total / ranks))


def assert_histogram_fits(histogram: TimeHistogram, events: list[Event]) -> None:
    starts = histogram.starts
    expected = Counter(max(i for i, start in enumerate(starts) if start <= time) for _, _, time in events)
    assert list(histogram.counts) == [expected[i] for i in range(len(starts))]


@pytest.mark.parametrize("whole_times", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_every_figure_is_that_of_literal_python(tmp_path, monkeypatch, seed, whole_times):
    monkeypatch.setattr(measure_module, "CHUNK_EVENTS", 5)
    count, nodes = 40 + 37 * seed, 3 + 4 * seed
    events = random_events(count, nodes, seed, whole_times=whole_times)
    summary = summary_of(log_of(tmp_path, events, nodes))
    assert_counts_fit(summary, events, nodes)
    assert_degrees_fit(summary, degrees_of(events, nodes))
    assert_histogram_fits(summary.time_histogram, events)


@pytest.mark.parametrize("pass_events", [7, 50, 299, 300])
def test_several_passes_count_the_edges_of_one(tmp_path, monkeypatch, pass_events):
    monkeypatch.setattr(measure_module, "CHUNK_EVENTS", 11)
    events = random_events(300, 12, seed=1)
    log = log_of(tmp_path, events, 12, events_per_shard=40)
    assert summary_of(log, pass_events=pass_events) == summary_of(log)
    assert_counts_fit(summary_of(log, pass_events=pass_events), events, 12)


def test_one_pair_filling_most_of_the_log_is_counted_once(tmp_path, monkeypatch):
    monkeypatch.setattr(measure_module, "CHUNK_EVENTS", 10)
    events = [(0, 1, t) if t % 10 else (t % 9, t % 7, t) for t in range(500)]
    log = log_of(tmp_path, events, 10, events_per_shard=100)
    assert_counts_fit(summary_of(log, pass_events=60), events, 10)


def test_pairs_of_large_ids_do_not_collide(tmp_path):
    nodes = 3_000_000
    same_low_32_bits = [(0, 0), divmod(2**32, nodes)]
    neighbours_in_key_order = [(0, nodes - 1), (1, 0), (nodes - 1, nodes - 1)]
    mirrored = [(0, 1000), (1000, 0)]
    pairs = same_low_32_bits + neighbours_in_key_order + mirrored
    log = log_of(tmp_path, [(src, dst, 0) for src, dst in pairs], nodes)
    assert summary_of(log).distinct_edges == len(pairs)


@pytest.mark.parametrize("pass_events", [100, 30])
def test_progress_adds_up_to_the_events_to_read(tmp_path, pass_events):
    log, seen = log_of(tmp_path, random_events(100, 5, seed=0), 5), []
    measure(log, seen.append, pass_events=pass_events)
    assert sum(seen) == events_to_read(log, pass_events=pass_events) == 100 * math.ceil(100 / pass_events)


@pytest.mark.parametrize("time", [5, 2.5])
def test_one_event_is_described(tmp_path, time):
    summary = summary_of(log_of(tmp_path, [(1, 1, time)], 3))
    assert_counts_fit(summary, [(1, 1, time)], 3)
    assert (summary.first_time, summary.last_time, summary.span_seconds) == (time, time, 0)
    assert summary.time_histogram == TimeHistogram(starts=(time,), counts=(1,))
    assert (summary.degree.min, summary.degree.max) == (0, 2)


@pytest.mark.parametrize("time", [17, 0.1])
def test_all_times_equal_are_one_group_in_one_bin(tmp_path, time):
    events = [(i % 4, i % 3, time) for i in range(30)]
    summary = summary_of(log_of(tmp_path, events, 4))
    assert_counts_fit(summary, events, 4)
    assert summary.time_histogram.counts == (30,)


@pytest.mark.parametrize("last", [3, 47, 48, 100, 1000])
def test_bins_of_whole_times_differ_by_less_than_a_tick(tmp_path, last):
    events = [(0, 1, 5 + tick) for tick in range(last + 1)]
    bins = min(48, last + 1)
    expected = Counter(tick * bins // (last + 1) for tick in range(last + 1))
    summary = summary_of(log_of(tmp_path, events, 2, events_per_shard=400))
    assert summary.time_histogram.counts == tuple(expected[bin] for bin in range(bins))


def test_bins_of_whole_times_are_exact_where_float64_is_not(tmp_path):
    first = 1_700_000_000_000_000_000
    events = [(0, 1, first + i) for i in range(96)]
    summary = summary_of(log_of(tmp_path, events, 2, unit="ns"))
    assert summary.time_histogram.counts == (2,) * 48
    assert summary.span_seconds == pytest.approx(95e-9)


def test_times_going_back_across_chunks_are_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(measure_module, "CHUNK_EVENTS", 2)
    with pytest.raises(AssertionError, match="time order"):
        summary_of(log_of(tmp_path, [(0, 1, 0), (0, 1, 9), (0, 1, 5), (0, 1, 9)], 2))


def test_the_summary_knows_files_features_and_labels(tmp_path):
    events = random_events(20, 4, seed=3)
    with FeatureWriter(tmp_path / EDGE_FEATURES_NAME, width=6) as features:
        features.append(np.zeros((20, 6), np.float32))
    log = log_of(tmp_path, events, 4, has_labels=True, bipartite=True, edge_features=features.record())
    summary = summary_of(log)
    assert (summary.edge_feature_width, summary.node_feature_width) == (6, 0)
    assert summary.has_labels and summary.bipartite
    assert [shard.rows for shard in summary.shards] == [7, 7, 6]
    assert summary.bytes_on_disk == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert all((tmp_path / shard.file).stat().st_size == shard.bytes for shard in summary.shards)


def test_the_summary_survives_json(tmp_path):
    summary = summary_of(log_of(tmp_path, random_events(30, 4, seed=2), 4))
    read_back = json.loads(json.dumps(summary.to_json()))
    assert read_back["events"] == 30
    assert read_back["degree"]["max"] == summary.degree.max
    assert [balance["blocks"] for balance in read_back["block_balance"]] == [2, 4, 8]
    assert sum(read_back["time_histogram"]["counts"]) == 30


def shown(summary: LogSummary, *, encoding="utf-8") -> str:
    """What a pipe 80 columns wide receives."""
    pipe = io.BytesIO()
    with io.TextIOWrapper(pipe, encoding=encoding) as file:
        print_summary(summary, Console(file=file, width=80))
        file.flush()
        return pipe.getvalue().decode(encoding)


@pytest.fixture
def summary(tmp_path) -> LogSummary:
    start = 1_082_040_961
    return summary_of(log_of(tmp_path, [(i % 5, i % 3, start + 900 * i) for i in range(1200)], 5))


def huge(summary: LogSummary) -> LogSummary:
    """The widest figures a log of 1e8 events can show."""
    event_count = 100_000_000
    counts = {"events": event_count, "nodes": 2_000_000, "distinct_edges": 60_543_211}
    degree = replace(summary.degree, min=event_count, p50=event_count, p99=event_count, max=event_count)
    shards = tuple(
        ShardSummary(file=f"events-{i:05d}.parquet", rows=4_000_000, bytes=123_456_789) for i in range(25)
    )
    times = {"first_time": 1_082_040_961.1234567, "last_time": 1_799_040_961.7654321}
    groups = {"largest_equal_time_group": 98_765_432, "distinct_times": 87_654_321}
    return replace(
        summary, **counts, **times, **groups, repeated_edges=39_456_789, degree=degree, shards=shards
    )


def test_key_figures_are_shown_with_separators_and_dates(summary):
    text = shown(summary)
    for figure in ("1,200", "1,082,040,961", "2004-04-15 14:56:01 UTC", "12.5 days", "98.75 %", "240"):
        assert figure in text, figure
    assert f"{summary.bytes_on_disk:,}" in text
    assert "batching by timestamps" not in text


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_widest_figures_fit_80_columns_uncropped(summary, encoding):
    text = shown(huge(summary), encoding=encoding)
    assert max(len(line) for line in text.splitlines()) <= 80
    for figure in ("100,000,000", "60,543,211", "39,456,789", "39.46 %", "1,082,040,961.1234567"):
        assert figure in text, figure
    assert "98,765,432" in " ".join(text.split())
    assert "\x1b" not in text


def test_shards_beyond_the_eighth_are_one_row_with_their_sums(summary):
    text = shown(huge(summary))
    assert "events-00007.parquet" in text and "events-00008.parquet" not in text
    row = next(line for line in text.splitlines() if "… and 17 more" in line)
    assert row.split()[-2:] == [f"{17 * 4_000_000:,}", f"{17 * 123_456_789:,}"]


def test_large_groups_of_equal_times_earn_a_note(summary):
    grouped = replace(summary, largest_equal_time_group=12_345)
    note = "largest group of equal times 12,345 events: consider batching by timestamps"
    assert note in shown(grouped).splitlines()


def test_times_that_count_from_zero_get_no_dates(tmp_path):
    text = shown(summary_of(log_of(tmp_path, [(0, 1, 0), (0, 1, 2_678_400)], 2)))
    assert "UTC" not in text
    assert "2,678,400 s" in text and "31.0 days" in text


def test_the_tallest_bar_is_the_fullest_bin_and_no_event_is_invisible(summary):
    counts = (1, 1000, 500, 0)
    histogram = TimeHistogram(starts=(0, 1, 2, 3), counts=counts)
    lines = shown(replace(summary, time_histogram=histogram)).splitlines()
    top, bottom = (next(line for line in lines if line.startswith(label)) for label in ("1,000 ", "    0 "))
    assert top[6:] == " " * 12 + "█" * 12
    assert bottom[6:] == "▁" * 12 + "█" * 24


def test_zero_span_is_shown_with_one_axis_label(tmp_path):
    text = shown(summary_of(log_of(tmp_path, [(0, 1, 7)] * 3, 2)))
    assert text.splitlines()[-1].split() == ["7", "s"]
    assert "0 seconds" in text
