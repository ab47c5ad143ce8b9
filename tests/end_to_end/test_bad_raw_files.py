"""Every bad raw file gets one sentence with file, line, value, rule and remedy, and leaves nothing behind."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from tests.support.command_line import refusal
from tests.support.raw_files import GOOD, refuse


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        pytest.param("", [], id="empty file"),
        pytest.param("\n\n", [], id="blank lines only"),
        pytest.param("src,dst,time\n", [], id="header only"),
        pytest.param(GOOD, ["--src", "user"], id="no such column"),
        pytest.param("a,b,c\n1,2,3\n", [], id="columns not recognised"),
        pytest.param(GOOD, ["--time", "7"], id="position beyond the last column"),
        pytest.param(GOOD + "1,2,noon\n", [], id="time in words"),
        pytest.param(GOOD + "1,2,\n", [], id="time missing"),
        pytest.param(GOOD + "1,2,nan\n", [], id="time NaN"),
        pytest.param(GOOD + "1,2,inf\n", [], id="time infinite"),
        pytest.param("1,2,-4\n" + GOOD[13:], [], id="time negative"),
        pytest.param(GOOD + ",2,13\n", [], id="source null"),
        pytest.param(GOOD + "1,NULL,13\n", [], id="destination null"),
        pytest.param(GOOD + "1,<NA>,13\n", [], id="destination missing as pandas writes it"),
        pytest.param(GOOD + "NA,2,13\n", [], id="source missing as R writes it"),
        pytest.param("# src dst time\n1 2 3\n", [], id="names behind a mark of comments"),
        pytest.param("% sym weighted\n1 2 1 1082040961\n", [], id="a comment first"),
        pytest.param(
            "src,dst,time,w\n1,2,3,4\n", ["--features", "w", "--one-hot", "v"], id="one-hot of none"
        ),
        pytest.param(GOOD, ["--fill", "0"], id="fill without features"),
        pytest.param(GOOD, ["--standardize"], id="standardize without features"),
        pytest.param(GOOD + "1,2\n", [], id="row too short"),
        pytest.param(GOOD + "1,2,13,14\n", [], id="row too long"),
        pytest.param(GOOD + "\n\n1,2,11\n3,4,12\n", [], id="out of order, after blank lines"),
        pytest.param("src,dst,time,w\n1,2,3,0.5\n1,2,4,heavy\n", ["--features", "w"], id="feature in words"),
        pytest.param("src,dst,time,w\n1,2,3,0.5\n1,2,4,nan\n", ["--features", "w"], id="feature NaN"),
        pytest.param(
            "user_id,item_id,timestamp,state_label,features\n0,0,1,0,0.1,0.2\n0,1,2,0,0.1\n",
            ["--format", "jodie"],
            id="feature count changes",
        ),
        pytest.param(
            "src,dst,time\n1,2,2024-01-01\n1,2,2024-13-01\n",
            ["--time-unit", "iso"],
            id="date that does not exist",
        ),
        pytest.param(
            "src,dst,time\n1,2,2024-01-02\n1,2,2024-01-01\n", ["--time-unit", "iso"], id="dates out of order"
        ),
        pytest.param(GOOD, ["--time-step", "-1"], id="time step negative"),
        pytest.param(GOOD, ["--delimiter", "::"], id="delimiter too long"),
        pytest.param(GOOD, ["--delimiter", "é"], id="delimiter not ASCII"),
        pytest.param(GOOD, ["--time-step", "1e30"], id="huge time step"),
        pytest.param(GOOD, ["--features", "time"], id="two roles"),
        pytest.param(GOOD, ["--src", "dst"], id="one column for both ends"),
        pytest.param(GOOD, ["--features", "3:"], id="no features there"),
        pytest.param(GOOD + "1,2,1_000\n", [], id="underscore in a time"),
        pytest.param(GOOD + "1,2,0x10\n", [], id="hexadecimal time"),
        pytest.param(GOOD + "1,2,1e19\n", [], id="time beyond 2^63"),
        pytest.param('src,dst,"time\n1,2",3\n2,3,4\n', [], id="quote over two lines of names"),
        pytest.param(GOOD + '1,"2,13\n', [], id="quote that never ends"),
        pytest.param(GOOD.encode() + b"Jos\xe9,2,13\n", [], id="Latin-1 bytes"),
        pytest.param("1  2  3\n1  2  4\n", ["--format", "snap"], id="aligned columns"),
        pytest.param(
            "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n0,0,1,0,5,6\n",
            ["--src", "user_id", "--dst", "item_id", "--time", "when"],
            id="time column misnamed",
        ),
        pytest.param("src,dst,time,w\n1,2,3,1e39\n", ["--features", "w"], id="huge feature"),
        pytest.param("src,dst,time,kind\n1,2,3,like\n", ["--label", "kind"], id="label in words"),
        pytest.param(GOOD, ["--shard-events", "0"], id="empty shards"),
    ],
)
def test_bad_text_is_refused(tmp_path: Path, text: str | bytes, flags: list[str]) -> None:
    refuse(tmp_path, text, *flags)


def test_missing_file_is_named(tmp_path: Path) -> None:
    refusal("convert", tmp_path / "absent.csv", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    assert "the folder holds no files" in refusal("convert", tmp_path / "raw", tmp_path / "out")


def test_one_path_is_not_enough(tmp_path: Path) -> None:
    refusal("convert", tmp_path / "log.csv")


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(gzip.compress(GOOD.encode() * 9000)[:-400], id="cut short"),
        pytest.param(gzip.compress(GOOD.encode())[:12] + b"garbage" * 9, id="garbage inside"),
    ],
)
def test_unreadable_gzip_is_refused(tmp_path: Path, damaged: bytes) -> None:
    refuse(tmp_path, damaged, "--sort", name="log.csv.gz")


def test_offence_far_into_the_file_is_named_by_its_line(tmp_path: Path) -> None:
    rows = [f"{i % 97},{i % 89},{i}" for i in range(1_200_000)]
    rows[1_100_000] = "5,6,4812"
    refuse(tmp_path, "src,dst,time\n" + "\n".join(rows))


def dyglib_triple(folder: Path, edge_rows: int = 4, node_rows: int = 4) -> Path:
    path = folder / "ml_toy.csv"
    path.write_text(",u,i,ts,label,idx\n0,1,2,0.0,0.0,1\n1,2,3,1.0,0.0,2\n2,3,1,2.0,0.0,3\n")
    np.save(folder / "ml_toy.npy", np.arange(edge_rows * 2, dtype=np.float64).reshape(-1, 2))
    np.save(folder / "ml_toy_node.npy", np.ones((node_rows, 3)))
    return path


@pytest.mark.parametrize(
    "rows",
    [
        {"edge_rows": 3},
        {"edge_rows": 9},
        {"node_rows": 3},
        {"node_rows": 9},
    ],
)
def test_dyglib_features_of_wrong_length_are_refused(tmp_path: Path, rows: dict[str, int]) -> None:
    refusal("convert", dyglib_triple(tmp_path, **rows), tmp_path / "out", "--format", "dyglib")
    assert not (tmp_path / "out").exists()


def test_dyglib_features_beyond_float32_are_refused(tmp_path: Path) -> None:
    path = dyglib_triple(tmp_path)
    np.save(tmp_path / "ml_toy.npy", np.full((4, 2), 1e300))
    refusal("convert", path, tmp_path / "out", "--format", "dyglib")


@pytest.mark.parametrize(
    "second",
    [
        "src,dst,time,a\n1,2,4,5\n",
        "src,dst,time,b,a\n1,2,4,5,6\n",
        "src,dst,time,a,b\n1,2,2,5,6\n",
    ],
)
def test_files_that_do_not_make_one_log_are_refused(tmp_path: Path, second: str) -> None:
    (tmp_path / "a.csv").write_text("src,dst,time,a,b\n1,2,3,0,1\n")
    (tmp_path / "b.csv").write_text(second)
    files = (tmp_path / "a.csv", tmp_path / "b.csv")
    refusal("convert", *files, tmp_path / "out", "--features", "3:")
