"""What the converter makes of every kind of raw file, read back through the event log."""

import gzip
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from data_prep import id_map, spill, text_source
from data_prep.convert_command import Convert
from tests.support.sentences import refused
from tpnet_dist.events import EventLog

Row = tuple[object, object, float]


def convert(tmp_path: Path, text: str | bytes | list[str], name: str = "log.csv", **flags: Any) -> EventLog:
    parts = text if isinstance(text, list) else [text]
    paths = [tmp_path / f"{number}-{name}" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        path.write_bytes(part.encode() if isinstance(part, str) else part)
    Convert(paths=(*paths, tmp_path / "out"), **flags).run()
    return EventLog(tmp_path / "out")


def rows(log: EventLog) -> list[Row]:
    """The events as the user wrote them."""
    raw, events = log.raw_ids().column("raw_id").to_pylist(), log.read(0, len(log))
    columns = zip(events.src.tolist(), events.dst.tolist(), events.time.tolist(), strict=True)
    return [(raw[src], raw[dst], time) for src, dst, time in columns]


EVENTS = [(10, 20, 5), (20, 30, 5), (10, 30, 9)]


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        pytest.param("src,dst,time\n10,20,5\n20,30,5\n10,30,9\n", {}, id="commas"),
        pytest.param(
            "src,dst,time\r\n10,20,5\r\n20,30,5\r\n10,30,9", {}, id="Windows line ends, none at the end"
        ),
        pytest.param("\ufeffsrc,dst,time\n10,20,5\n20,30,5\n10,30,9\n", {}, id="byte order mark"),
        pytest.param("src\tdst\ttime\n10\t20\t5\n20\t30\t5\n10\t30\t9\n", {}, id="tabs"),
        pytest.param(
            "src\tdst\ttime\n10\t20\t5\n20\t30\t5\n10\t30\t9\n", {"delimiter": "tab"}, id="tabs, said"
        ),
        pytest.param("src;dst;time\n10;20;5\n20;30;5\n10;30;9\n", {}, id="semicolons"),
        pytest.param("src, dst, time\n10, 20, 5\n20, 30, 5\n10, 30, 9\n", {}, id="blanks after commas"),
        pytest.param('"src","dst","time"\n"10","20","5"\n"20","30","5"\n"10","30","9"\n', {}, id="quotes"),
        pytest.param("10,20,5\n20,30,5\n10,30,9\n", {}, id="no header"),
        pytest.param("10 20 5\n20 30 5\n10 30 9\n", {"format": "snap"}, id="snap"),
        pytest.param(
            "# a graph\n# src dst t\n10 20 5\n20 30 5\n10 30 9\n", {"format": "snap"}, id="snap, comments"
        ),
        pytest.param("ts,src,dst,word\n5,10,20,a\n5,20,30,b\n9,10,30,c\n", {"format": "tgb"}, id="tgb"),
        pytest.param(
            "when,who,whom\n5,10,20\n5,20,30\n9,10,30\n",
            {"src": "who", "dst": "whom", "time": "when"},
            id="by name",
        ),
        pytest.param("5,10,20\n5,20,30\n9,10,30\n", {"src": "1", "dst": "2", "time": "0"}, id="by position"),
        pytest.param("src,dst,time\n\n10,20,5\n20,30,5\n\n10,30,9\n\n", {}, id="blank lines"),
        pytest.param(gzip.compress(b"src,dst,time\n10,20,5\n20,30,5\n10,30,9\n"), {}, id="gzip"),
        pytest.param(
            pa.compress(b"src,dst,time\n10,20,5\n20,30,5\n10,30,9\n", "zstd", asbytes=True), {}, id="zstd"
        ),
        pytest.param(["src,dst,time\n10,20,5\n20,30,5\n", "src,dst,time\n10,30,9\n"], {}, id="two files"),
        pytest.param("src,dst,time\n10,20,5\n10,30,9\n20,30,5\n", {"sort": True}, id="sorted here"),
    ],
)
def test_every_dialect_gives_the_same_events(tmp_path: Path, text: Any, flags: dict[str, Any]) -> None:
    log = convert(tmp_path, text, **flags)
    assert rows(log) == EVENTS
    assert log.manifest.raw_id_dtype == "int64"
    assert log.manifest.time_dtype == "int64"


def test_ids_may_be_text(tmp_path: Path) -> None:
    log = convert(tmp_path, "src,dst,time\nann,bob,1\nbob,Zoë,2\n")
    assert rows(log) == [("ann", "bob", 1), ("bob", "Zoë", 2)]


def test_ids_with_leading_zeros_are_different_nodes(tmp_path: Path) -> None:
    log = convert(tmp_path, "src,dst,time\n7,8,1\n007,8,2\n")
    assert rows(log) == [("7", "8", 1), ("007", "8", 2)]


def test_ids_turn_into_text_when_the_first_word_comes_late(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(text_source, "_BLOCK_BYTES", 64)
    lines = [f"{i % 5},{i % 7},{i}" for i in range(50)] + ["x1,3,50", "-2,3,51"]
    log = convert(tmp_path, "\n".join(lines))
    assert rows(log)[0] == ("0", "0", 0)
    assert rows(log)[-2:] == [("x1", "3", 50), ("-2", "3", 51)]
    assert log.num_nodes == 7 + 2


@pytest.mark.parametrize("few", [2, 64, 1 << 14])
def test_text_ids_are_the_same_nodes_however_full_the_table_is(
    tmp_path: Path, monkeypatch: Any, few: int
) -> None:
    monkeypatch.setattr(text_source, "_BLOCK_BYTES", 256)
    monkeypatch.setattr(id_map, "_FIRST_SLOTS", few)
    names = [f"user-{number}" for number in random.Random(0).choices(range(60), k=400)]
    lines = [f"{u},{v},{i}" for i, (u, v) in enumerate(zip(names[::2], names[1::2], strict=True))]
    log = convert(tmp_path, "\n".join(lines))
    assert [(u, v) for u, v, _ in rows(log)] == list(zip(names[::2], names[1::2], strict=True))
    assert log.num_nodes == len(set(names))


def test_bipartite_ids_are_two_spaces(tmp_path: Path) -> None:
    log = convert(tmp_path, "src,dst,time\n7,7,1\n7,8,2\n", bipartite=True)
    assert log.num_nodes == 3
    assert rows(log) == [(7, 7, 1), (7, 8, 2)]
    events, side = log.read(0, 2), log.raw_ids().column("side").to_pylist()
    assert events.src[0] != events.dst[0]
    assert [side[node] for node in events.src] == ["src", "src"]
    assert [side[node] for node in events.dst] == ["dst", "dst"]


def test_bipartite_ids_may_be_numbers_on_one_side_and_words_on_the_other(tmp_path: Path) -> None:
    log = convert(tmp_path, "src,dst,time\n7,tea,1\n8,tea,2\n", bipartite=True)
    assert rows(log) == [("7", "tea", 1), ("8", "tea", 2)]


@pytest.mark.parametrize(
    ("times", "unit", "stored", "stored_unit"),
    [
        (["1.5", "2", "1700000000.72836"], "s", [1.5, 2.0, 1700000000.72836], "s"),
        (["1.0", "2.0", "3.0"], "s", [1, 2, 3], "s"),
        (["1", "2.0", "3e9"], "s", [1, 2, 3_000_000_000], "s"),
        (["1700000000123456789", "1700000000123456790", "1700000000123456791"], "ns", None, "ns"),
        (["1500", "1501", "1502"], "ms", [1500, 1501, 1502], "ms"),
        (
            ["2024-01-01", "2024-01-01 00:00:01", "2024-01-01T02:00:02+02:00"],
            "iso",
            [1704067200, 1704067201, 1704067202],
            "s",
        ),
        (
            ["1970-01-01T00:00:00Z", "1970-01-01T00:00:00.25Z", "1970-01-01 00:00:01"],
            "iso",
            [0, 250_000, 1_000_000],
            "us",
        ),
    ],
)
def test_times_are_kept_exactly(
    tmp_path: Path, times: list[str], unit: Any, stored: list[float] | None, stored_unit: str
) -> None:
    log = convert(
        tmp_path, "src,dst,time\n" + "".join(f"1,2,{time}\n" for time in times), time_unit=unit, yes=True
    )
    expected = [int(time) for time in times] if stored is None else stored
    kept = log.read(0, 3).time.tolist()
    assert kept == expected
    assert [type(time) for time in kept] == [type(expected[0])] * 3
    assert log.manifest.time_unit == stored_unit


def test_seconds_count_from_the_first_event(tmp_path: Path) -> None:
    log = convert(tmp_path, "src,dst,time\n1,2,1700000000500\n1,2,1700000002000\n", time_unit="ms")
    assert log.seconds(log.read(0, 2).time).tolist() == [0.0, 1.5]


@pytest.mark.parametrize(
    ("parts", "unit"),
    [
        ([f"1,2,0.5\n1,2,{2**53 + 1}\n"], "s"),
        (["1,2,0.5\n", f"1,2,{2**53 + 1}\n"], "s"),
        (["1,2,1700000000123456789\n1,2,1700000000123456790.0\n"], "ns"),
        ([f"1,2,{2**63}\n"], "s"),
        (["1,2,5\n1,2,1e19\n"], "s"),
    ],
)
def test_times_that_cannot_be_kept_exactly_are_refused(tmp_path: Path, parts: list[str], unit: Any) -> None:
    with refused():
        convert(tmp_path, parts, time_unit=unit)


def test_a_log_with_as_many_nodes_as_events_keeps_its_ids(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(text_source, "_BLOCK_BYTES", 4096)
    numbers = random.Random(0).sample(range(-(10**12), 10**12), 4000)
    lines = [f"{u},{v},{i}" for i, (u, v) in enumerate(zip(numbers[::2], numbers[1::2], strict=True))]
    log = convert(tmp_path, "\n".join(lines))
    assert log.num_nodes == 4000
    assert [(u, v) for u, v, _ in rows(log)] == list(zip(numbers[::2], numbers[1::2], strict=True))


def test_time_step_replaces_times_by_ranks(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(spill, "_EVENTS_PER_BLOCK", 2)
    log = convert(tmp_path, "src,dst,time\n1,2,2006\n1,2,2006\n1,3,2006\n2,3,2009\n1,2,2010\n", time_step=100)
    assert log.read(0, 5).time.tolist() == [0, 0, 0, 100, 200]
    assert log.manifest.time_unit == "s"


def test_labels_and_features_follow_their_events_through_sorting(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(text_source, "_BLOCK_BYTES", 512)
    monkeypatch.setattr(spill, "_EVENTS_PER_RUN", 40)
    monkeypatch.setattr(spill, "_EVENTS_PER_BLOCK", 7)
    shuffled = random.Random(0).choices(range(60), k=500)
    lines = [f"{i},{i + 1},{time},{i % 3},{i / 2},{-i}" for i, time in enumerate(shuffled)]
    header = "src,dst,time,label,half,minus\n"
    log = convert(tmp_path, header + "\n".join(lines), label="label", features="half,minus", sort=True)
    order = sorted(range(500), key=lambda i: shuffled[i])  # stable, as --sort promises
    assert [row[0] for row in rows(log)] == order
    assert log.read(0, 500).label.tolist() == [i % 3 for i in order]
    assert log.edge_features is not None
    assert log.edge_features[:].tolist() == [[i / 2, -i] for i in order]


def test_jodie_rows_have_more_fields_than_the_header_names(tmp_path: Path) -> None:
    header = "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
    log = convert(tmp_path, header + "0,0,0.0,0,0.1,0.2,0.3\n1,0,36.0,1,0.4,0.5,0.6\n", format="jodie")
    assert log.num_nodes == 3
    assert rows(log) == [(0, 0, 0), (1, 0, 36)]
    assert log.read(0, 2).label.tolist() == [0, 1]
    assert log.edge_features is not None and log.edge_features.shape == (2, 3)


def dyglib_files(folder: Path, edge: np.ndarray, node: np.ndarray) -> Path:
    np.save(folder / "ml_toy.npy", edge)
    np.save(folder / "ml_toy_node.npy", node)
    path = folder / "ml_toy.csv"
    path.write_text(",u,i,ts,label,idx\n0,1,2,0.0,0.0,1\n1,2,3,1.0,1.0,2\n2,3,1,2.0,0.0,3\n")
    return path


def test_dyglib_padding_rows_go_and_features_follow_the_ids(tmp_path: Path) -> None:
    edge, node = np.arange(8.0).reshape(4, 2), np.arange(12.0).reshape(4, 3)
    Convert(paths=(dyglib_files(tmp_path, edge, node), tmp_path / "out"), format="dyglib").run()
    log = EventLog(tmp_path / "out")
    assert log.edge_features is not None and log.node_features is not None
    assert np.array_equal(log.edge_features, edge[1:])
    raw = log.raw_ids().column("raw_id").to_numpy()
    assert np.array_equal(log.node_features, node[raw])


def test_dyglib_zero_features_are_no_features(tmp_path: Path) -> None:
    Convert(
        paths=(dyglib_files(tmp_path, np.zeros((4, 172)), np.zeros((4, 172))), tmp_path / "out"),
        format="dyglib",
    ).run()
    log = EventLog(tmp_path / "out")
    assert log.edge_features is None and log.node_features is None


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    lines = "".join(f"{i % 11},{i % 13},{i}\n" for i in range(1000))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        convert(tmp_path / name, lines, shard_events=300)
    files = sorted(path.name for path in (tmp_path / "a" / "out").iterdir())
    assert len(files) == 4 + 2
    for name in files:
        assert (tmp_path / "a/out" / name).read_bytes() == (tmp_path / "b/out" / name).read_bytes()


def test_degree_is_balanced_over_contiguous_blocks(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    pairs = (generator.pareto(1.5, (20_000, 2)) * 20).astype(int) % 2_000
    log = convert(tmp_path, "".join(f"{u},{v},{i}\n" for i, (u, v) in enumerate(pairs)))
    events = log.read(0, len(log))
    degree = np.bincount(events.src, minlength=log.num_nodes) + np.bincount(
        events.dst, minlength=log.num_nodes
    )
    assert np.array_equal(degree, log.raw_ids().column("degree").to_numpy())
    halves = np.array_split(degree, 2)
    assert max(half.sum() for half in halves) / degree.sum() < 0.52
