"""Features as people have them: node tables, missing values, categories, one scale; and repeated events."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_prep.__main__ import main
from tests.support.command_line import convert, describe, refusal, run_here
from tpnet_dist.events import EventLog
from tpnet_dist.events.feature_rules import raw_values, transform

TEXT = "src,dst,time,w,kind\n1,2,1,0.5,tea\n2,3,2,,coffee\n1,3,3,1.5,\n3,1,4,1.0,tea\n"


def converted(tmp_path: Path, text: str, *flags: str) -> EventLog:
    (tmp_path / "log.csv").write_text(text)
    convert(tmp_path / "log.csv", tmp_path / "out", *flags)
    return EventLog(tmp_path / "out")


def features(log: EventLog) -> list[list[float]]:
    assert log.edge_features is not None
    values: list[list[float]] = log.edge_features[:].round(5).tolist()
    return values


def test_missing_values_are_filled_with_zeros_or_the_mean(tmp_path: Path) -> None:
    assert features(converted(tmp_path, TEXT, "--features", "w", "--fill", "0")) == [[0.5], [0], [1.5], [1]]
    (tmp_path / "mean").mkdir()
    log = converted(tmp_path / "mean", TEXT, "--features", "w", "--fill", "mean")
    assert features(log) == [[0.5], [1], [1.5], [1]]
    assert "--fill mean" in refusal("convert", tmp_path / "log.csv", tmp_path / "x", "--features", "w")


def test_missing_values_are_counted(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(TEXT)
    done = run_here(main, "convert", tmp_path / "log.csv", tmp_path / "out", "--features", "w", "--fill", "0")
    assert "1 values of w, filled with 0" in done.stdout


def test_categories_become_values_of_zero_and_one(tmp_path: Path) -> None:
    log = converted(tmp_path, TEXT, "--features", "kind,w", "--one-hot", "kind", "--fill", "0")
    assert features(log) == [[0, 1, 0.5], [1, 0, 0], [0, 0, 1.5], [0, 1, 1]]
    preparation = log.manifest.preparation
    assert preparation is not None
    assert preparation.feature_names == ("kind=coffee", "kind=tea", "w")


def test_features_are_put_to_one_scale_and_later_ones_alike(tmp_path: Path) -> None:
    log = converted(
        tmp_path, TEXT, "--features", "w,kind", "--one-hot", "kind", "--fill", "mean", "--standardize"
    )
    values = np.array(features(log))
    assert values[:, 0].mean() == pytest.approx(0, abs=1e-6) and values[1, 0] == 0
    assert log.manifest.preparation is not None
    columns = log.manifest.preparation.edge_columns
    later: dict[str, pa.Array] = {"w": pa.array(["0.5", ""]), "kind": pa.array(["tea", "cocoa"])}
    again = transform(columns, raw_values(columns, later.__getitem__))
    assert np.allclose(again[0], values[0], atol=1e-5)
    assert again[1].tolist() == [0, 0, 0]


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("sort", [[], ["--sort"]])
def test_prepared_features_are_those_of_every_source(tmp_path: Path, form: str, sort: list[str]) -> None:
    draw = np.random.default_rng(0)
    count = 5000
    frame = pl.DataFrame(
        {
            "src": draw.integers(0, 50, count),
            "dst": draw.integers(0, 50, count),
            "time": np.arange(count),
            "w": [None if n % 9 == 0 else float(n) for n in range(count)],
            "kind": [["a", "b", None, "c"][n % 4] for n in range(count)],
        }
    )
    flags = [
        "--features",
        "w,kind",
        "--one-hot",
        "kind",
        "--fill",
        "mean",
        "--standardize",
        "--dedupe",
        "exact",
    ]
    path = tmp_path / f"log.{form}"
    frame.write_csv(path) if form == "csv" else frame.write_parquet(path)
    convert(path, tmp_path / "out", *flags, *sort)
    log = EventLog(tmp_path / "out")
    w = frame["w"].fill_null(frame["w"].mean())
    expected = (w - w.mean()) / float(np.nanstd(frame["w"].to_numpy()))
    assert log.edge_features is not None
    assert np.allclose(log.edge_features[:, 0], expected, atol=1e-5)
    assert log.edge_features[:, 1:].tolist() == [[float(k == c) for c in "abc"] for k in frame["kind"]]


def test_too_many_categories_are_refused(tmp_path: Path) -> None:
    text = "src,dst,time,kind\n" + "".join(f"1,2,{i},k{i}\n" for i in range(300))
    (tmp_path / "log.csv").write_text(text)
    sentence = refusal(
        "convert", tmp_path / "log.csv", tmp_path / "x", "--features", "kind", "--one-hot", "kind"
    )
    assert "more than 256 different values" in sentence


REPEATED = "src,dst,time,w\n1,2,1,5\n1,2,1,5\n1,2,1,6\n2,1,1,5\n1,2,2,5\n1,2,2,5\n"


@pytest.mark.parametrize(("flags", "kept"), [([], 3), (["--features", "w"], 4)])
def test_repeated_events_are_dropped_and_counted(tmp_path: Path, flags: list[str], kept: int) -> None:
    (tmp_path / "log.csv").write_text(REPEATED)
    done = run_here(main, "convert", tmp_path / "log.csv", tmp_path / "out", "--dedupe", "exact", *flags)
    assert f"{6 - kept} events dropped" in done.stdout
    log = EventLog(tmp_path / "out")
    assert len(log) == kept
    assert sum(log.raw_ids().column("degree").to_pylist()) == 2 * kept
    assert describe(tmp_path / "out", "--verify")["events"] == kept


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
def test_node_features_follow_the_ids(tmp_path: Path, form: str) -> None:
    nodes = pl.DataFrame({"id": ["a", "b", "z"], "age": [30.0, 40.0, 50.0], "size": [1, 2, 3]})
    path = tmp_path / f"nodes.{form}"
    {"csv": nodes.write_csv, "parquet": nodes.write_parquet, "jsonl": nodes.write_ndjson}[form](path)
    (tmp_path / "log.csv").write_text("src,dst,time\na,b,1\nb,c,2\n")
    done = run_here(
        main, "convert", tmp_path / "log.csv", tmp_path / "out", "--node-features", path, "--node-id", "id"
    )
    assert done.returncode == 0, done.stderr
    assert "1 of 3 nodes have no line there and get zeros, 1 lines are of no node" in done.stdout
    log = EventLog(tmp_path / "out")
    assert log.node_features is not None
    by_name = dict(
        zip(log.raw_ids().column("raw_id").to_pylist(), log.node_features[:].tolist(), strict=True)
    )
    assert by_name == {"a": [30, 1], "b": [40, 2], "c": [0, 0]}


@pytest.mark.parametrize(
    ("nodes", "flags"),
    [
        ({"nodes.csv": "# by hand\nid;x\n1;0,5\n# 2;9\n2;3\n"}, ["--comment", "#", "--decimal-comma"]),
        ({"a.csv": "id,x\n2,3\n", "b.csv": "id,x\n1,0.5\n"}, []),
        ({"a.jsonl": '{"id": 2, "x": 3}\n', "b.jsonl": '{"id": 1, "x": 0.5}\n'}, []),
    ],
    ids=["comments and commas", "files of whole numbers and fractions", "JSON of both"],
)
def test_node_features_are_read_as_events_are(
    tmp_path: Path, nodes: dict[str, str], flags: list[str]
) -> None:
    (tmp_path / "log.csv").write_text("src;dst;time\n1;2;1\n")
    (tmp_path / "nodes").mkdir()
    for name, content in nodes.items():
        (tmp_path / "nodes" / name).write_text(content)
    table = ["--node-features", tmp_path / "nodes", "--node-id", "id"]
    convert(tmp_path / "log.csv", tmp_path / "out", *table, *flags)
    log = EventLog(tmp_path / "out")
    assert log.node_features is not None
    values = dict(zip(log.raw_ids().column("raw_id").to_pylist(), log.node_features[:, 0], strict=True))
    assert values == {1: 0.5, 2: 3.0}


def test_a_node_table_of_other_ids_is_taken_on_purpose_alone(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("src,dst,time\n1,2,1\n")
    (tmp_path / "nodes.csv").write_text("id,x\n1.0,5\n2.0,6\n")
    args = [
        tmp_path / "log.csv",
        tmp_path / "out",
        "--node-features",
        tmp_path / "nodes.csv",
        "--node-id",
        "id",
    ]
    assert "none of its 2 ids, such as 1.0" in refusal("convert", *args)
    convert(*args, "--yes")


def test_node_features_of_two_id_spaces_say_their_side(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("src,dst,time\n7,7,1\n7,8,2\n")
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("id,x\n7,1\n")
    flags = ["--bipartite", "--node-features", str(nodes), "--node-id", "id"]
    assert "add a column 'side'" in refusal("convert", tmp_path / "log.csv", tmp_path / "x", *flags)
    nodes.write_text("id,x,side\n7,1,user\n7,2,item\n")
    assert "it must say src or dst" in refusal("convert", tmp_path / "log.csv", tmp_path / "x", *flags)
    nodes.write_text("id,x,side\n7,1,src\n7,2,dst\n8,3,dst\n")
    convert(tmp_path / "log.csv", tmp_path / "out", *flags)
    log = EventLog(tmp_path / "out")
    assert log.node_features is not None
    sides = zip(
        log.raw_ids().column("raw_id").to_pylist(), log.raw_ids().column("side").to_pylist(), strict=True
    )
    assert dict(zip(sides, log.node_features[:, 0].tolist(), strict=True)) == {
        (7, "src"): 1,
        (7, "dst"): 2,
        (8, "dst"): 3,
    }


@pytest.mark.parametrize(
    ("columns", "flags", "fragment"),
    [
        ({"id": [1, 1], "x": [1, 2]}, ["--node-id", "id"], "node 1 has several lines"),
        ({"id": [1, None], "x": [1, 2]}, ["--node-id", "id"], "holds an id that is missing"),
        ({"id": [1, 2], "x": [1, None]}, ["--node-id", "id"], "--fill 0 or --fill mean"),
        ({"id": [1, 2], "x": ["p", "q"]}, ["--node-id", "id"], "--one-hot"),
        ({"id": [1, 2], "x": [1, 2]}, ["--node-id", "key"], "no column 'key'"),
        ({"id": [1, 2], "x": [1, 2]}, ["--node-id", "id", "--node-columns", "y"], "no column 'y'"),
        ({"id": [1, 2], "x": [1, 2]}, [], "column of ids is not named"),
        ({"id": [1, 2]}, ["--node-id", "id"], "no column beside the id"),
        ("", ["--node-id", "id"], "holds no rows"),
    ],
)
def test_bad_node_tables_are_refused(
    tmp_path: Path, columns: dict[str, list[Any]] | str, flags: list[str], fragment: str
) -> None:
    (tmp_path / "log.csv").write_text("src,dst,time\n1,2,1\n")
    if isinstance(columns, str):
        (tmp_path / "nodes.parquet").write_text(columns)
    else:
        pq.write_table(pa.table(columns), tmp_path / "nodes.parquet")
    args = ["--node-features", str(tmp_path / "nodes.parquet"), *flags]
    assert fragment in refusal("convert", tmp_path / "log.csv", tmp_path / "out", *args)
    assert not (tmp_path / "out").exists()
