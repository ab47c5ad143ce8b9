"""Typed files that cannot be used get one sentence with file, row or row group, rule and remedy."""

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_prep import places
from tests.support.command_line import refusal

COLUMNS: dict[str, list[Any]] = {"src": [1, 2, 3], "dst": [4, 5, 6], "time": [7, 8, 9], "w": [0.5, 1.5, 2.5]}


def refuse(folder: Path, given: Path, *flags: str) -> str:
    before = sorted(folder.rglob("*"))
    sentence = refusal("convert", given, folder / "out", *flags)
    assert sorted(folder.rglob("*")) == before
    return sentence


@pytest.mark.parametrize(
    ("column", "values", "flags", "fragments"),
    [
        ("src", [1, None, 3], [], ["row 2", "source id None is null"]),
        ("dst", ["a", "b", " "], [], ["row 3", "destination id ' ' is null"]),
        ("dst", [1.0, 2.5, 3.0], [], ["row 2", "destination id 2.5 is neither text nor a whole number"]),
        ("src", [{"id": 1}, {"id": 2}, {"id": 3}], [], ["'src' holds struct", "flatten it first"]),
        ("src", [[1], [2], [3]], [], ["'src' holds list", "whole numbers or text"]),
        ("src", [True, False, True], [], ["'src' holds bool"]),
        ("src", [None, None, None], [], ["'src' (source id) is null"]),
        ("time", [7, None, 9], [], ["row 2", "time (column 'time') is missing"]),
        ("time", [7, 3, 9], [], ["row 2: time 3 is before 7", "--sort"]),
        ("time", [7.5, float("nan"), 9.0], [], ["row 2", "not finite"]),
        ("time", [-1, 2, 3], [], ["row 1", "negative"]),
        ("time", ["7", "noon", "9"], [], ["row 2", "time 'noon' is not a number"]),
        ("time", [True, True, False], [], ["'time' holds bool"]),
        ("w", [0.5, None, 2.5], ["--features", "w"], ["row 2", "column 'w' is missing", "--fill"]),
        (
            "w",
            [1, None, 0],
            ["--label", "w", "--fill", "0", "--features", "x"],
            ["row 2: column 'w' is missing; fill it in or"],
        ),
        ("w", [0.5, float("inf"), 2.5], ["--features", "w"], ["row 2", "not finite in float32"]),
        ("w", ["a", "b", "c"], ["--features", "w"], ["'w' holds", "numbers or lists of them", "--one-hot w"]),
        (
            "w",
            [[1.0, 2.0], [3.0], [4.0, 5.0]],
            ["--features", "w"],
            ["row 2", "1 values where the first row has 2"],
        ),
        (
            "w",
            [[1.0, 2.0], [3.0, None], [4.0, 5.0]],
            ["--features", "w"],
            ["row 2", "'missing' is not a number"],
        ),
        ("src", [1.0, 2.0**60, 3.0], [], ["row 2", "may have been rounded", "double"]),
    ],
)
def test_bad_columns_are_refused(
    tmp_path: Path, column: str, values: list[Any], flags: list[str], fragments: list[str]
) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({**COLUMNS, "x": [0, 0, 0], column: values}), path)
    sentence = refuse(tmp_path, path, *flags)
    assert all(fragment in sentence for fragment in [str(path), *fragments]), sentence


@pytest.mark.parametrize(
    ("second", "flags", "fragment"),
    [
        ({"source": [1], "dst": [1], "time": [10], "w": [1.0]}, [], "src column is 'source' where that of"),
        ({"src": [1], "dst": [1], "when": [10], "w": [1.0]}, [], "no time column"),
        ({"src": ["a"], "dst": [1], "time": [10], "w": [1.0]}, [], "ids are text and numbers where"),
        ({"src": [1], "dst": [1], "time": [10], "v": [1.0]}, ["--features", "w"], "no column 'w'"),
        ({"src": [1], "dst": [1], "time": [10], "w": [[1.0, 2.0]]}, ["--features", "w"], "2 feature columns"),
        ({"src": [], "dst": [], "time": [], "w": []}, [], "holds no rows"),
    ],
)
def test_a_folder_of_several_schemas_is_refused(
    tmp_path: Path, second: dict[str, list[Any]], flags: list[str], fragment: str
) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    pq.write_table(pa.table(COLUMNS), folder / "a.parquet")
    pq.write_table(pa.table(second), folder / "b.parquet")
    sentence = refuse(tmp_path, folder, *flags)
    assert fragment in sentence and "b.parquet" in sentence, sentence


def test_a_damaged_row_group_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    count = 4000
    table = pa.table({"src": range(count), "dst": range(count), "time": range(count)})
    pq.write_table(table, path, row_group_size=1000, compression="zstd", use_dictionary=False)
    data = bytearray(path.read_bytes())
    chunk = pq.read_metadata(path).row_group(2).column(2)
    start = chunk.data_page_offset
    data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(data)
    assert "row group 2 cannot be read" in refuse(tmp_path, path)


@pytest.mark.parametrize(
    ("name", "content", "fragment"),
    [
        ("log.parquet", b"PAR1" + b"\0" * 100, "not readable as Parquet"),
        ("log.feather", b"ARROW1\0\0" + b"\1" * 100, "not readable as Arrow IPC"),
        ("log.jsonl", b'{"src": 1, "dst": 2, "time": 3}\n{"src": 1, "dst"\n', "cannot be read as JSON lines"),
        ("log.jsonl", b'{"src": 1, "dst": 2, "time": 3, "\xb2": 4}\n', "the name of a column is not UTF-8"),
        ("log.json", b'[{"src": 1, "dst": 2, "time": 3}]', "one JSON list; write one object a line"),
        ("log.txt", b'[{"src": 1, "dst": 2, "time": 3}]', "one JSON list; write one object a line"),
        (
            "log.jsonl",
            b'{"src": 1, "dst": 2, "time": 3}\n{"src": "x", "dst": 2, "time": 4}\n',
            "'src' is a string",
        ),
        ("log.xlsx", b"PK\x03\x04\0\0", "a zip archive or a spreadsheet"),
        ("log.csv", "src,dst,time\n1,2,3\n".encode("utf-16"), "text in UTF-16"),
        ("log.parquet.gz", gzip.compress(b"PAR1", mtime=0), "a compressed file of columns; unpack it first"),
        ("log.bin", b"\x7fELF\0\0\0\0" * 9, "neither text nor Parquet"),
        ("log.parquet", b"", "the file is empty"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, name: str, content: bytes, fragment: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert fragment in refuse(tmp_path, path)


@pytest.mark.parametrize(
    ("given", "fragment"),
    [
        ("*.csv", "no file matches"),
        ("ftp://host/log.csv", "ftp:// cannot be read"),
        ("file:///nowhere/log.csv", "no such file or folder"),
    ],
)
def test_inputs_that_are_not_there_are_refused(tmp_path: Path, given: str, fragment: str) -> None:
    assert fragment in refusal("convert", given if ":" in given else tmp_path / given, tmp_path / "out")


def test_a_file_given_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(COLUMNS), path)
    (tmp_path / "link.parquet").symlink_to(path)
    for again in (path, f"{tmp_path}/./log.parquet", path.as_uri(), tmp_path / "link.parquet"):
        assert "is given twice" in refusal("convert", path, again, tmp_path / "out")


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.csv"
    path.write_text("src,dst,time\n1,2,3\n")
    opened = places.Place.open

    def open_and_write(place: places.Place) -> Any:
        file = opened(place)
        with path.open("a") as more:
            more.write("1,2,4\n")
        return file

    monkeypatch.setattr(places.Place, "open", open_and_write)
    assert "was changed while it was read" in refusal("convert", path, tmp_path / "out")
    assert list(tmp_path.iterdir()) == [path]


def test_a_date_that_does_not_fit_the_format_is_named(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("src,dst,time\n1,2,14/11/2023\n1,2,11/14/2023\n")
    sentence = refuse(tmp_path, tmp_path / "log.csv", "--time-format", "%d/%m/%Y")
    assert "line 3: time '11/14/2023' is not written as --time-format" in sentence


def test_a_bad_row_in_a_folder_of_hive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "raw" / "hour=3" / "a.csv"
    path.parent.mkdir(parents=True)
    path.write_text("src,dst,time\n1,2,3\n1,2\n")
    sentence = refusal("convert", tmp_path / "raw", tmp_path / "out", "--features", "hour")
    assert "line 3: 2 fields where the file has 3 columns" in sentence


def test_a_unit_of_times_that_say_it_themselves_is_refused(tmp_path: Path) -> None:
    table = pa.table({**COLUMNS, "time": pa.array([7, 8, 9], pa.timestamp("s"))})
    pq.write_table(table, tmp_path / "log.parquet")
    assert "say themselves what they count" in refuse(tmp_path, tmp_path / "log.parquet", "--time-unit", "ms")
