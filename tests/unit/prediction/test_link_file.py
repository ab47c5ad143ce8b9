"""Times of a CSV are read alike, wherever in the file their spelling changes."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.support.sentences import refused
from tpnet_dist.errors import InputError
from tpnet_dist.events.preparation import Preparation, TextForm
from tpnet_dist.prediction.link_columns import GivenColumns
from tpnet_dist.prediction.link_file import LinkFile

ROWS = 400_000
"""Of more bytes than are read at a time."""


def file_of(path: Path, *times: str) -> LinkFile:
    path.write_text("src,dst,time\n" + "".join(f"a,b,{time}\n" for time in times))
    return LinkFile(path)


@pytest.mark.parametrize(("late", "value"), [("1700576000.0", 1700576000), ("1700576000.5", 1700576000.5)])
def test_a_spelling_that_comes_late_is_read(tmp_path: Path, late: str, value: float) -> None:
    blocks = list(file_of(tmp_path / "pairs.csv", *["1700000000"] * ROWS, late).blocks())
    assert sum(map(len, blocks)) == ROWS + 1
    times = [block.time for block in blocks]
    assert times[0] is not None and times[0].dtype == np.int64
    assert times[-1] is not None and times[-1][-1] == value


def test_nanoseconds_keep_their_last_digit_beside_fractions_that_are_none(tmp_path: Path) -> None:
    times = file_of(tmp_path / "pairs.csv", "1700000000123456789", "1700000000123456791.0").read().time
    assert times is not None and times.tolist() == [1700000000123456789, 1700000000123456791]


def test_dates_with_and_without_a_zone_are_utc(tmp_path: Path) -> None:
    spellings = ("2023-11-14T22:13:20Z", "2023-11-14 22:13:20", " 2023-11-15T00:13:20.000+02:00")
    times = file_of(tmp_path / "pairs.csv", *spellings).read().time
    assert times is not None
    assert times.tolist() == [np.datetime64("2023-11-14T22:13:20", "us").item()] * 3


@pytest.mark.parametrize(
    "times",
    [
        ["1", "soon"],
        ["1", "2023-11-14"],
        ["1"] * ROWS + ["2023-11-14"] * 20_000,
        ["1", ""],
        ["1", "NULL"],
    ],
    ids=["a word", "a date among numbers", "dates after numbers", "nothing", "a spelling of nothing"],
)
def test_other_times_are_refused(tmp_path: Path, times: list[str]) -> None:
    with refused():
        file_of(tmp_path / "pairs.csv", *times).read()


PREPARED = Preparation(
    columns=("who", "whom", "w", "note", "when"),
    src="who",
    dst="whom",
    time="when",
    features=("w",),
    text=TextForm(delimiter=";", has_header=True, comment="#"),
    options={},
)
HEADLESS = Preparation(
    columns=("0", "1", "2", "3"),
    src="0",
    dst="1",
    time="3",
    features=("2",),
    text=TextForm(delimiter=" ", has_header=False),
    options={},
)


def prepared_file(path: Path, text: str, preparation: Preparation, **more: Any) -> LinkFile:
    path.write_text(text)
    return LinkFile(path, GivenColumns(preparation=preparation), num_features=1, **more)


@pytest.mark.parametrize(
    ("text", "preparation", "features"),
    [
        ("# old\nwho;whom;w;note;when\n1;2;0.5;x;7\n3;4;1.5;y;8\n", PREPARED, [0.5, 1.5]),
        ("when;w;whom;who\n7;0.5;2;1\n8;1.5;4;3\n", PREPARED, [0.5, 1.5]),
        ("who,whom,when,w\n1,2,7,0.5\n3,4,8,1.5\n", PREPARED, [0.5, 1.5]),
        ("src,dst,time,w\n1,2,7,0.5\n3,4,8,1.5\n", PREPARED, [0.5, 1.5]),
        ("1 2 0.5 7\n3 4 1.5 8\n", HEADLESS, [0.5, 1.5]),
        ("src,dst,time,any\n1,2,7,0.5\n3,4,8,1.5\n", HEADLESS, [0.5, 1.5]),
    ],
)
def test_columns_are_matched_by_the_names_of_the_converted_files(
    tmp_path: Path, text: str, preparation: Preparation, features: list[float]
) -> None:
    block = prepared_file(tmp_path / "new.csv", text, preparation).read()
    assert block.dst is not None and block.time is not None and block.features is not None
    assert (block.src.tolist(), block.dst.tolist()) == (["1", "3"], ["2", "4"])
    assert (block.time.tolist(), block.features[:, 0].tolist()) == ([7, 8], features)


def test_a_column_of_a_log_without_names_is_asked_for_by_the_usual_name(tmp_path: Path) -> None:
    with refused():
        prepared_file(tmp_path / "users.csv", "user\n1\n", HEADLESS, roles=("src",)).read()


def test_features_that_are_not_those_of_the_log_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lacks feature column w"):
        prepared_file(tmp_path / "new.csv", "who,whom,when,v\n1,2,7,0.5\n", PREPARED).read()


def test_an_open_quote_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text('src,dst,time,note\n1,2,3,a\n1,2,4,"open\n1,2,5,b\n')
    with pytest.raises(InputError, match="line 3: a quote is opened here and never closed"):
        LinkFile(path).read()


def test_two_quotes_that_make_one_link_of_several_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text('src,dst,note\n1,2,"a\n3,4,b\n5,6,c"\n7,8,"two\nlines"\n')
    with pytest.raises(InputError, match="line 2: a quote makes one value of 3 lines"):
        LinkFile(path).read()


@pytest.mark.parametrize("name", ["new", "new.csv"])
@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrows", ".jsonl"])
def test_typed_files_are_read_like_text_whatever_their_name(tmp_path: Path, suffix: str, name: str) -> None:
    frame = pl.DataFrame({"who": [1, 3], "whom": [2, 4], "w": [0.5, 1.5], "when": [7, 8]})
    path = tmp_path / (name if name.endswith(".csv") else f"new{suffix}")
    write = {
        ".parquet": frame.write_parquet,
        ".feather": frame.write_ipc,
        ".arrows": frame.write_ipc_stream,
        ".jsonl": frame.write_ndjson,
    }
    write[suffix](path)
    block = LinkFile(path, GivenColumns(preparation=PREPARED), num_features=1).read()
    assert block.features is not None and block.features.tolist() == [[0.5], [1.5]]
    assert block.src.tolist() == [1, 3]


def test_ids_of_json_that_look_like_dates_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "new.jsonl"
    path.write_text('{"src": "2023-01-01", "dst": "b", "time": "2023-11-14T22:17:00Z"}\n')
    block = LinkFile(path).read()
    assert block.src.tolist() == ["2023-01-01"]
    assert block.time is not None and block.time.dtype.kind == "M"
