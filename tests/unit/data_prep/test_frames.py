"""Tables in memory give the data folder of the file that holds them, or an exception with the command's
sentence."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import torch

import data_prep
from tpnet_dist.errors import InputError
from tpnet_dist.events import EventLog

COUNT = 3000


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    draw = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "who": [f"u{n}" for n in draw.integers(0, 90, COUNT)],
            "whom": [f"i{n}" for n in draw.integers(0, 70, COUNT)],
            "when": 60 * np.arange(COUNT),
            "w": draw.normal(size=COUNT).round(3),
        }
    )


def hashes(log: EventLog) -> dict[str, str]:
    return {record.file: record.sha256 for record in log.manifest.files()}


OPTIONS: dict[str, Any] = {"src": "who", "dst": "whom", "time": "when", "features": ["w"], "bipartite": True}


def relation_of(frame: pl.DataFrame) -> Any:
    duckdb = pytest.importorskip("duckdb")
    return duckdb.connect().from_arrow(frame.to_arrow())


def pandas_of(frame: pl.DataFrame) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(
        {name: frame[name].to_list() for name in frame.columns}, index=range(7, 7 + COUNT)
    )


MAKERS: dict[str, Callable[[pl.DataFrame], Any]] = {
    "polars": lambda frame: frame,
    "polars, lazy": lambda frame: frame.lazy().filter(pl.col("when") >= 0),
    "Arrow table": lambda frame: frame.to_arrow(),
    "Arrow reader": lambda frame: frame.to_arrow().to_reader(max_chunksize=777),
    "Arrow dataset": lambda frame: ds.dataset(frame.to_arrow()),
    "pandas": pandas_of,
    "DuckDB": relation_of,
}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_table_gives_the_folder_of_the_file(frame: pl.DataFrame, tmp_path: Path, kind: str) -> None:
    frame.write_csv(tmp_path / "log.csv")
    from_file = data_prep.convert(tmp_path / "log.csv", tmp_path / "file", **OPTIONS)
    from_table = data_prep.convert(MAKERS[kind](frame), tmp_path / "table", **OPTIONS)
    assert hashes(from_table) == hashes(from_file)


def test_temporal_data_is_taken_with_its_messages(tmp_path: Path) -> None:
    data = SimpleNamespace(
        src=torch.tensor([3, 4]), dst=torch.tensor([5, 3]), t=torch.tensor([7, 9]), msg=torch.eye(2), y=None
    )
    log = data_prep.convert(data, tmp_path / "out")
    assert log.read(0, 2).time.tolist() == [7, 9]
    assert log.edge_features is not None and log.edge_features[:].tolist() == [
        [1.0, 0.0],
        [0.0, 1.0],
    ]


def test_node_features_may_be_a_table_in_memory(frame: pl.DataFrame, tmp_path: Path) -> None:
    names = {"src": "who", "dst": "whom", "time": "when", "one_id_space": True}
    nodes = pl.DataFrame({"id": ["u1", "i2", "later"], "age": [7.0, 8.0, 9.0]})
    log = data_prep.convert(frame, tmp_path / "out", node_features=nodes, node_id="id", **names)
    later = pl.DataFrame({"who": ["later"], "whom": ["u1"], "when": [60 * COUNT]})
    log = data_prep.append(later, tmp_path / "out", node_features=nodes.to_arrow())
    assert log.node_features is not None
    ages = log.node_features[:][:, 0].tolist()
    age = dict(zip(log.raw_ids().column("raw_id").to_pylist(), ages, strict=True))
    assert (age["u1"], age["i2"], age["later"], age["u2"]) == (7, 8, 9, 0)


def test_names_of_columns_may_hold_commas_and_positions_be_numbers(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": [1], "b": [2], "c": [3], "x, y": [0.5], "z": [0.25]})
    log = data_prep.convert(frame, tmp_path / "out", src=0, dst=1, time=2, features=["x, y", "z"])
    assert log.edge_features is not None and log.edge_features[:].tolist() == [[0.5, 0.25]]


def test_several_paths_and_options_are_taken(frame: pl.DataFrame, tmp_path: Path) -> None:
    frame[:1000].write_csv(tmp_path / "a.csv")
    frame[1000:].write_parquet(tmp_path / "b.parquet")
    log = data_prep.convert([tmp_path / "a.csv", tmp_path / "b.parquet"], tmp_path / "out", **OPTIONS)
    assert len(log) == COUNT


@pytest.mark.parametrize(
    ("source", "options", "sentence"),
    [
        (
            pl.DataFrame({"src": [1, None], "dst": [1, 2], "time": [3, 4]}),
            {},
            "row 2: source id None is null",
        ),
        (pl.DataFrame({"src": [1, 2], "dst": [1, 2], "time": [4, 3]}), {}, "row 2: time 3 is before 4"),
        (pl.DataFrame({"src": [], "dst": [], "time": []}), {}, "holds no rows"),
        (pl.DataFrame({"user": [1], "item": [1], "time": [4]}), {}, "--bipartite"),
        ({"src": [1]}, {}, "neither a path nor a table"),
        ("absent.csv", {}, "no such file"),
        (
            pa.table({"src": [1], "dst": [2], "time": [3]}),
            {"sorted": True},
            "unknown option sorted; did you mean sort",
        ),
        (pl.DataFrame({"src": [1], "dst": [2], "time": [3]}), {"fill": "max"}, "fill is 'max', but must be"),
        (pl.DataFrame({"src": [1], "dst": [2], "time": [3]}), {"sort": "yes"}, "sort is 'yes', but must be"),
        (
            SimpleNamespace(src=torch.arange(2), dst=torch.arange(3), t=torch.arange(2)),
            {},
            "has 2 of src, 3 of dst, 2 of t",
        ),
    ],
)
def test_what_cannot_be_used_raises_the_sentence_and_leaves_nothing(
    tmp_path: Path, source: Any, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        data_prep.convert(source, tmp_path / "out", **options)
    assert list(tmp_path.iterdir()) == []
