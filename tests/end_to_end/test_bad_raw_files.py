"""Every bad raw file gets one sentence with file, line, value, rule and remedy, and leaves nothing behind."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from tests.support.command_line import refusal
from tests.support.raw_files import GOOD, refuse


@pytest.mark.parametrize(
    ("text", "flags", "fragments"),
    [
        pytest.param("", [], ["the file is empty", "at least one event"], id="empty file"),
        pytest.param("\n\n", [], ["the file is empty"], id="blank lines only"),
        pytest.param("src,dst,time\n", [], ["only a header line"], id="header only"),
        pytest.param(
            GOOD, ["--src", "user"], ["no column 'user'", "src, dst, time", "--src"], id="no such column"
        ),
        pytest.param(
            "a,b,c\n1,2,3\n", [], ["no src column", "name it with --src"], id="columns not recognised"
        ),
        pytest.param(
            GOOD, ["--time", "7"], ["no column '7'", "3 columns"], id="position beyond the last column"
        ),
        pytest.param(
            GOOD + "1,2,noon\n", [], ["line 5", "time 'noon'", "--time-unit iso"], id="time in words"
        ),
        pytest.param(GOOD + "1,2,\n", [], ["line 5", "time ''", "not a number"], id="time missing"),
        pytest.param(GOOD + "1,2,nan\n", [], ["line 5", "time 'nan'", "not finite"], id="time NaN"),
        pytest.param(GOOD + "1,2,inf\n", [], ["line 5", "time 'inf'", "not finite"], id="time infinite"),
        pytest.param("1,2,-4\n" + GOOD[13:], [], ["line 1", "time -4 is negative"], id="time negative"),
        pytest.param(GOOD + ",2,13\n", [], ["line 5", "source id ''", "null"], id="source null"),
        pytest.param(
            GOOD + "1,NULL,13\n", [], ["line 5", "destination id 'NULL'", "null"], id="destination null"
        ),
        pytest.param(GOOD + "1,2\n", [], ["line 5", "2 fields", "3 columns"], id="row too short"),
        pytest.param(GOOD + "1,2,13,14\n", [], ["line 5", "4 fields", "3 columns"], id="row too long"),
        pytest.param(
            GOOD + "\n\n1,2,11\n3,4,12\n",
            [],
            ["line 7", "time 11 is before 12", "pass --sort"],
            id="out of order, after blank lines",
        ),
        pytest.param(
            "src,dst,time,w\n1,2,3,0.5\n1,2,4,heavy\n",
            ["--features", "w"],
            ["line 3", "column 'w' 'heavy'", "not a number"],
            id="feature in words",
        ),
        pytest.param(
            "src,dst,time,w\n1,2,3,0.5\n1,2,4,nan\n",
            ["--features", "w"],
            ["line 3", "column 'w' 'nan'", "not finite"],
            id="feature NaN",
        ),
        pytest.param(
            "user_id,item_id,timestamp,state_label,features\n0,0,1,0,0.1,0.2\n0,1,2,0,0.1\n",
            ["--format", "jodie"],
            ["line 3", "5 fields", "6 columns", "features must be as many"],
            id="feature count changes",
        ),
        pytest.param(
            "src,dst,time\n1,2,2024-01-01\n1,2,2024-13-01\n",
            ["--time-unit", "iso"],
            ["line 3", "'2024-13-01'", "not ISO-8601"],
            id="date that does not exist",
        ),
        pytest.param(
            "src,dst,time\n1,2,2024-01-02\n1,2,2024-01-01\n",
            ["--time-unit", "iso"],
            ["line 3", "2024-01-01 is before 2024-01-02", "--sort"],
            id="dates out of order",
        ),
        pytest.param(GOOD, ["--time-step", "-1"], ["--time-step -1", "positive"], id="time step negative"),
        pytest.param(
            GOOD, ["--delimiter", "::"], ["--delimiter '::'", "one ASCII character"], id="delimiter too long"
        ),
        pytest.param(GOOD, ["--delimiter", "é"], ["--delimiter 'é'", "ASCII"], id="delimiter not ASCII"),
        pytest.param(
            GOOD, ["--time-step", "1e30"], ["--time-step 1", "choose a smaller step"], id="huge time step"
        ),
        pytest.param(GOOD, ["--features", "time"], ["'time'", "for time and for features"], id="two roles"),
        pytest.param(GOOD, ["--src", "dst"], ["'dst'", "for src and for dst"], id="one column for both ends"),
        pytest.param(
            GOOD, ["--features", "3:"], ["--features 3:", "beyond the 3 columns"], id="no features there"
        ),
        pytest.param(
            GOOD + "1,2,1_000\n", [], ["line 5", "'1_000'", "not a number"], id="underscore in a time"
        ),
        pytest.param(GOOD + "1,2,0x10\n", [], ["line 5", "'0x10'", "not a number"], id="hexadecimal time"),
        pytest.param(
            GOOD + "1,2,1e19\n", [], ["line 5", "1e19 cannot be kept exactly"], id="time beyond 2^63"
        ),
        pytest.param(GOOD + '1,"2,13\n', [], ["line 5", "2 fields"], id="quote that never ends"),
        pytest.param(
            GOOD.encode() + b"Jos\xe9,2,13\n", [], ["line 5", "not UTF-8", "iconv"], id="Latin-1 bytes"
        ),
        pytest.param(
            "1  2  3\n1  2  4\n", ["--format", "snap"], ["several blanks", "tr -s"], id="aligned columns"
        ),
        pytest.param(
            "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n0,0,1,0,5,6\n",
            ["--src", "user_id", "--dst", "item_id", "--time", "when"],
            ["no column 'when'"],
            id="time column misnamed",
        ),
        pytest.param(
            "src,dst,time,w\n1,2,3,1e39\n",
            ["--features", "w"],
            ["line 2", "not finite in float32"],
            id="huge feature",
        ),
        pytest.param(
            "src,dst,time,kind\n1,2,3,like\n",
            ["--label", "kind"],
            ["line 2", "'kind' 'like'"],
            id="label in words",
        ),
        pytest.param(GOOD, ["--shard-events", "0"], ["--shard-events 0", "at least 1"], id="empty shards"),
    ],
)
def test_bad_text_is_refused(
    tmp_path: Path, text: str | bytes, flags: list[str], fragments: list[str]
) -> None:
    sentence = refuse(tmp_path, text, *flags)
    assert all(fragment in sentence for fragment in fragments), sentence


def test_missing_file_is_named(tmp_path: Path) -> None:
    sentence = refusal("convert", tmp_path / "absent.csv", tmp_path / "out")
    assert "absent.csv: no such file" in sentence
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    assert "the folder holds no files" in refusal("convert", tmp_path / "raw", tmp_path / "out")


def test_one_path_is_not_enough(tmp_path: Path) -> None:
    assert "at least one input file and the output folder" in refusal("convert", tmp_path / "log.csv")


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(gzip.compress(GOOD.encode() * 9000)[:-400], id="cut short"),
        pytest.param(gzip.compress(GOOD.encode())[:12] + b"garbage" * 9, id="garbage inside"),
    ],
)
def test_unreadable_gzip_is_refused(tmp_path: Path, damaged: bytes) -> None:
    sentence = refuse(tmp_path, damaged, "--sort", name="log.csv.gz")
    assert "cannot be decompressed" in sentence


def test_offence_far_into_the_file_is_named_by_its_line(tmp_path: Path) -> None:
    rows = [f"{i % 97},{i % 89},{i}" for i in range(1_200_000)]
    rows[1_100_000] = "5,6,4812"
    sentence = refuse(tmp_path, "src,dst,time\n" + "\n".join(rows))
    assert "line 1,100,002: time 4812 is before 1099999" in sentence


def dyglib_triple(folder: Path, edge_rows: int = 4, node_rows: int = 4) -> Path:
    path = folder / "ml_toy.csv"
    path.write_text(",u,i,ts,label,idx\n0,1,2,0.0,0.0,1\n1,2,3,1.0,0.0,2\n2,3,1,2.0,0.0,3\n")
    np.save(folder / "ml_toy.npy", np.arange(edge_rows * 2, dtype=np.float64).reshape(-1, 2))
    np.save(folder / "ml_toy_node.npy", np.ones((node_rows, 3)))
    return path


@pytest.mark.parametrize(
    ("rows", "fragment"),
    [
        ({"edge_rows": 3}, "line 4: feature row 3 is beyond the feature file's 3 rows"),
        ({"edge_rows": 9}, "ml_toy.npy: 9 rows, but a padding row and 3 events need 4"),
        ({"node_rows": 3}, "ml_toy_node.npy: 3 rows, but ids are 1 to 3"),
        ({"node_rows": 9}, "ml_toy_node.npy: 9 rows, but ids are 1 to 3"),
    ],
)
def test_dyglib_features_of_wrong_length_are_refused(
    tmp_path: Path, rows: dict[str, int], fragment: str
) -> None:
    sentence = refusal("convert", dyglib_triple(tmp_path, **rows), tmp_path / "out", "--format", "dyglib")
    assert fragment in sentence
    assert not (tmp_path / "out").exists()


def test_dyglib_features_beyond_float32_are_refused(tmp_path: Path) -> None:
    path = dyglib_triple(tmp_path)
    np.save(tmp_path / "ml_toy.npy", np.full((4, 2), 1e300))
    assert "ml_toy.npy row 0: a feature is not finite in float32" in refusal(
        "convert", path, tmp_path / "out", "--format", "dyglib"
    )


@pytest.mark.parametrize(
    ("second", "fragment"),
    [
        ("src,dst,time,a\n1,2,4,5\n", "1 feature columns where"),
        ("src,dst,time,b,a\n1,2,4,5,6\n", "feature columns ['b', 'a'] where"),
        ("src,dst,time,a,b\n1,2,2,5,6\n", "line 2: time 2 is before 3"),
    ],
)
def test_files_that_do_not_make_one_log_are_refused(tmp_path: Path, second: str, fragment: str) -> None:
    (tmp_path / "a.csv").write_text("src,dst,time,a,b\n1,2,3,0,1\n")
    (tmp_path / "b.csv").write_text(second)
    files = (tmp_path / "a.csv", tmp_path / "b.csv")
    assert fragment in refusal("convert", *files, tmp_path / "out", "--features", "3:")
