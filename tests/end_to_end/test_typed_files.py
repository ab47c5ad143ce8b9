"""Typed files, and text as people have it, give the events that are in them."""

import io
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.command_line import convert
from tpnet_dist.events import EventLog

COLUMNS: dict[str, list[Any]] = {"src": [1, 2, 3], "dst": [4, 5, 6], "time": [7, 8, 9], "w": [0.5, 1.5, 2.5]}

EVENTS = [(10, 20, 5), (20, 30, 6), (10, 30, 9)]


def rows(log: EventLog) -> list[tuple[Any, Any, float]]:
    raw, events = log.raw_ids().column("raw_id").to_pylist(), log.read(0, len(log))
    columns = zip(events.src.tolist(), events.dst.tolist(), events.time.tolist(), strict=True)
    return [(raw[src], raw[dst], time) for src, dst, time in columns]


def typed(kind: pa.DataType, values: list[Any]) -> pa.Array:
    return pa.array(values).cast(kind)


SRC, DST, TIME = [10, 20, 10], [20, 30, 30], [5, 6, 9]
TEXTS = pa.array(["10", "20", "10"])


@pytest.mark.parametrize(
    "columns",
    [
        {"src": typed(pa.uint8(), SRC)},
        {"src": typed(pa.uint64(), SRC)},
        {"src": typed(pa.float64(), SRC)},
        {"src": typed(pa.decimal128(23, 2), SRC)},
        {"src": TEXTS},
        {"src": TEXTS.cast(pa.large_string())},
        {"src": TEXTS.cast(pa.string_view())},
        {"src": TEXTS.dictionary_encode()},
        {"src": pa.array(SRC).dictionary_encode()},
        {"time": typed(pa.float32(), TIME)},
        {"time": typed(pa.decimal128(23, 3), TIME)},
        {"time": typed(pa.timestamp("s"), TIME)},
        {"time": typed(pa.timestamp("ns", "Europe/Paris"), [t * 10**9 for t in TIME])},
        {"time": typed(pa.timestamp("ms"), [t * 1000 for t in TIME])},
        {"time": typed(pa.duration("s"), TIME)},
        {"time": pa.array(["5", "6.0", "9"])},
    ],
    ids=lambda columns: "-".join(f"{name} as {values.type}" for name, values in columns.items()),
)
def test_every_type_gives_the_same_events(tmp_path: Path, columns: dict[str, pa.Array]) -> None:
    plain = {"src": pa.array(SRC), "dst": pa.array(DST), "time": pa.array(TIME)}
    pq.write_table(pa.table({**plain, **columns}), tmp_path / "log.parquet")
    convert(tmp_path / "log.parquet", tmp_path / "out")
    log = EventLog(tmp_path / "out")
    assert rows(log) == EVENTS
    assert log.manifest.time_unit == "s"


def test_ids_beyond_63_bits_are_text_whatever_holds_them(tmp_path: Path) -> None:
    ids = [5, 2**64 - 1, 7]
    pq.write_table(pa.table({**COLUMNS, "src": pa.array(ids, pa.uint64())}), tmp_path / "log.parquet")
    lines = [
        f"{src},{dst},{time}" for src, dst, time in zip(ids, COLUMNS["dst"], COLUMNS["time"], strict=True)
    ]
    (tmp_path / "log.csv").write_text("\n".join(["src,dst,time", *lines]))
    for name in ("log.parquet", "log.csv"):
        convert(tmp_path / name, tmp_path / name.partition(".")[2])
    logs = [EventLog(tmp_path / name) for name in ("parquet", "csv")]
    assert rows(logs[0]) == rows(logs[1]) and logs[0].manifest.log_id == logs[1].manifest.log_id
    assert rows(logs[0])[1] == (str(2**64 - 1), "5", 8)


def test_nanoseconds_of_timestamps_are_kept(tmp_path: Path) -> None:
    moments = [1_700_000_000_123_456_789, 1_700_000_000_123_456_790]
    table = pa.table({"src": [1, 2], "dst": [2, 1], "time": pa.array(moments, pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "log.parquet")
    convert(tmp_path / "log.parquet", tmp_path / "out")
    log = EventLog(tmp_path / "out")
    assert (log.manifest.time_unit, log.read(0, 2).time.tolist()) == ("ns", moments)


def test_list_columns_are_features(tmp_path: Path) -> None:
    table = pa.table({**COLUMNS, "emb": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]})
    pq.write_table(table, tmp_path / "log.parquet")
    convert(tmp_path / "log.parquet", tmp_path / "out", "--features", "w,emb")
    log = EventLog(tmp_path / "out")
    assert log.edge_features is not None
    assert log.edge_features[:].tolist() == [[0.5, 1.0, 2.0], [1.5, 3.0, 4.0], [2.5, 5.0, 6.0]]
    preparation = log.manifest.preparation
    assert preparation is not None
    assert preparation.feature_names == ("w", "emb[0]", "emb[1]")


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("# made by hand\nsrc,dst,time\n10,20,5\n# later\n20,30,6\n10,30,9\n#end", "--comment #"),
        ("src;dst;time\n10;20;5,0\n20;30;6,0\n10;30;9\n", "--decimal-comma"),
        ("10;20;5,0\n20;30;6,0\n10;30;9,0\n", "--decimal-comma"),
        ('src,dst,time\n10,20,"5,0"\n20,30,"6,0"\n10,30,9\n', "--decimal-comma"),
        (
            "src,dst,time\n10,20,1970/01/01 00:00:05\n20,30,1970-01-01 00:00:06\n10,30,1970/01/01 00:00:09\n",
            "--time-unit iso",
        ),
        (
            "src,dst,time\n10,20,01.01.1970 00:00:05\n20,30,01.01.1970 00:00:06\n10,30,01.01.1970 00:00:09\n",
            "--time-format %d.%m.%Y_%H:%M:%S",
        ),
        (
            "src,dst,time\n10,20,1/1/70 0:00:05.000\n20,30,1/1/70 0:00:06.0\n10,30,1/1/70 0:00:09.0\n",
            "--time-format %d/%m/%y_%H:%M:%S.%f",
        ),
    ],
    ids=[
        "comments",
        "decimal commas",
        "decimal commas without names",
        "decimal commas in quotes",
        "slash dates",
        "a format",
        "a format with fractions",
    ],
)
def test_text_as_people_have_it(tmp_path: Path, text: str, flags: str) -> None:
    (tmp_path / "log.csv").write_text(text)
    convert(tmp_path / "log.csv", tmp_path / "out", *(flag.replace("_", " ") for flag in flags.split()))
    assert rows(EventLog(tmp_path / "out")) == EVENTS


def test_nanosecond_dates_are_kept(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("src,dst,time\n1,2,2023-11-14T22:13:20.123456789Z\n")
    convert(tmp_path / "log.csv", tmp_path / "out", "--time-unit", "iso")
    assert EventLog(tmp_path / "out").manifest.first_time == 1_700_000_000_123_456_789


def test_globs_folders_and_file_urls_are_read_in_order_of_their_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    for number, (src, dst, time) in enumerate(EVENTS, 9):
        (folder / f"part-{number}.csv").write_text(f"src,dst,time\n{src},{dst},{time}\n")
    for number, given in enumerate(
        (folder, folder / "part-*.csv", folder.as_uri(), f"{folder.as_uri()}/part-*.csv")
    ):
        convert(given, tmp_path / f"out-{number}")
        assert rows(EventLog(tmp_path / f"out-{number}")) == EVENTS


def test_folders_of_hive_give_columns(tmp_path: Path) -> None:
    for day in (2, 10):
        path = tmp_path / "raw" / f"time={day}" / "a.parquet"
        path.parent.mkdir(parents=True)
        pl.DataFrame({"src": [1], "dst": [2]}).write_parquet(path)
    convert(tmp_path / "raw", tmp_path / "out")
    assert rows(EventLog(tmp_path / "out")) == [(1, 2, 2), (1, 2, 10)]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_folders_of_hive_give_features(tmp_path: Path, suffix: str) -> None:
    for hour, number in ((3, 0), (10, 1)):
        path = tmp_path / "raw" / f"hour={hour}" / f"a.{suffix}"
        path.parent.mkdir(parents=True)
        frame = pl.DataFrame({"src": [1], "dst": [2], "time": [number]})
        {"csv": frame.write_csv, "parquet": frame.write_parquet, "jsonl": frame.write_ndjson}[suffix](path)
    convert(tmp_path / "raw", tmp_path / "out", "--features", "hour")
    log = EventLog(tmp_path / "out")
    assert rows(log) == [(1, 2, 0), (1, 2, 1)]
    assert log.edge_features is not None and log.edge_features[:].tolist() == [[3.0], [10.0]]


def test_files_that_polars_writes_are_read_whatever_their_texts_are(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "src": pl.Series(["a", "b", "a"], dtype=pl.Categorical),
            "dst": ["b", "c", "c"],
            "time": ["1970-01-01", "1970-01-02", "1970-01-03"],
            "w": ["0.5", "", "1.5"],
            "kind": pl.Series(["x", None, "y"], dtype=pl.Enum(["x", "y"])),
        }
    )
    nodes = pl.DataFrame({"id": ["a", "b", "c"], "size": ["1", "", "3"]})
    frame.write_ipc(tmp_path / "log.feather")
    frame.write_csv(tmp_path / "log.csv")
    nodes.write_ipc(tmp_path / "nodes.feather")
    flags = ["--features", "w,kind", "--one-hot", "kind", "--fill", "mean", "--node-id", "id"]
    flags += ["--node-features", str(tmp_path / "nodes.feather")]
    convert(tmp_path / "log.feather", tmp_path / "feather", *flags)
    convert(tmp_path / "log.csv", tmp_path / "csv", *flags, "--time-unit", "iso")
    here, there = (EventLog(tmp_path / name).manifest.files() for name in ("feather", "csv"))
    assert [record.sha256 for record in here] == [record.sha256 for record in there]


def test_texts_of_json_that_look_like_dates_are_ids(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"src": "2023-01-01", "time": "1970-01-01T00:00:05Z", "dst": "b"}\n')
    convert(tmp_path / "log.jsonl", tmp_path / "out")
    assert rows(EventLog(tmp_path / "out")) == [("2023-01-01", "b", 5)]


def test_gaps_of_list_columns_are_filled(tmp_path: Path) -> None:
    table = pa.table({**COLUMNS, "emb": pa.array([[1.0, 2.0], None, [5.0, None]])})
    pq.write_table(table, tmp_path / "log.parquet")
    convert(tmp_path / "log.parquet", tmp_path / "out", "--features", "emb", "--fill", "mean")
    features = EventLog(tmp_path / "out").edge_features
    assert features is not None and features[:].tolist() == [[1.0, 2.0], [3.0, 2.0], [5.0, 2.0]]


def test_dates_of_text_go_together_whatever_holds_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("src,dst,time\n10,20,1970-01-01T00:00:05\n")
    later = {"src": [20, 10], "dst": [30, 30], "time": ["1970-01-01 00:00:06", "1970-01-01 00:00:09"]}
    pl.DataFrame(later).write_ndjson(tmp_path / "b.jsonl")
    convert(tmp_path / "a.csv", tmp_path / "b.jsonl", tmp_path / "out", "--time-unit", "iso")
    assert rows(EventLog(tmp_path / "out")) == EVENTS


@pytest.mark.parametrize("times", [["1990", "1991"], ["20230101", "20230102"], ["1700000000", "1700000001"]])
def test_numbers_written_as_text_are_no_dates(tmp_path: Path, times: list[str]) -> None:
    pl.DataFrame({"src": [1, 2], "dst": [2, 3], "time": times}).write_parquet(tmp_path / "log.parquet")
    convert(tmp_path / "log.parquet", tmp_path / "out", "--yes")
    assert [time for _, _, time in rows(EventLog(tmp_path / "out"))] == [int(time) for time in times]


def test_days_may_be_whole_numbers(tmp_path: Path) -> None:
    pq.write_table(pa.table({"src": [1], "dst": [2], "day": [19700102]}), tmp_path / "log.parquet")
    convert(tmp_path / "log.parquet", tmp_path / "out", "--time-format", "%Y%m%d")
    assert rows(EventLog(tmp_path / "out")) == [(1, 2, 86400)]


def test_json_numbers_may_change_their_type_between_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from data_prep import table_readers

    monkeypatch.setattr(table_readers, "_BLOCK_BYTES", 64)
    lines = [f'{{"src": {i}, "dst": "{i + 1}", "time": {i}}}' for i in range(40)]
    lines += ['{"src": "x", "dst": "2", "time": 40.5}']
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    convert(tmp_path / "log.jsonl", tmp_path / "out")
    assert rows(EventLog(tmp_path / "out"))[-1] == ("x", "2", 40.5)


def test_standard_input_may_be_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table(COLUMNS), buffer)
    buffer.seek(0)
    stdin = io.TextIOWrapper(io.BufferedReader(buffer))  # type: ignore[type-var]
    monkeypatch.setattr("sys.stdin", stdin)
    convert("-", tmp_path / "out")
    assert len(EventLog(tmp_path / "out")) == 3
