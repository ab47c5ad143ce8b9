"""The same events give the same data folder, whatever holds them."""

import gzip
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import data_prep
from data_prep.__main__ import parse
from data_prep.convert_command import Convert
from tests.support.command_line import ROOT, convert
from tests.support.shared_folder import shared_folder
from tpnet_dist.events import EventLog

NUM_PARTS = 20


def hashes(folder: Path) -> dict[str, str]:
    return {record.file: record.sha256 for record in EventLog(folder).manifest.files()}


def social_twin(folder: Path) -> tuple[Path, list[str]]:
    """A log like the field's: text ids, fractions of seconds, a label and features."""
    draw = np.random.default_rng(0)
    count = 30_000
    path = folder / "twin.csv"
    pl.DataFrame(
        {
            "who": [f"user-{n}" for n in (draw.pareto(1.2, count) * 20).astype(int) % 4000],
            "whom": [f"item-{n}" for n in draw.integers(0, 900, count)],
            "when": 1_289_241_911.5 + np.cumsum(draw.exponential(40, count)).round(4),
            "label": draw.integers(0, 2, count),
            "w": draw.normal(size=count).round(3),
            "v": draw.integers(0, 9, count),
        }
    ).write_csv(path)
    return path, [
        "--src",
        "who",
        "--dst",
        "whom",
        "--time",
        "when",
        "--label",
        "label",
        "--features",
        "w,v",
        "--bipartite",
    ]


def of_shared(name: str, flags: str) -> Callable[[Path], tuple[Path, list[str]]]:
    return lambda folder: (shared_folder() / "data" / name, flags.split())


LOGS = {
    "twin": social_twin,
    "uci": of_shared("uci/CollegeMsg.txt", "--format snap"),
    "wikipedia": of_shared("wikipedia/wikipedia.csv", ""),
    "can-parl": of_shared("CanParl/CanParl.csv", "--features w"),
    "bitcoin": of_shared("bitcoinotc/soc-sign-bitcoinotc.csv", "--src 0 --dst 1 --time 3 --features 2"),
    "mathoverflow": of_shared("sx-mathoverflow/sx-mathoverflow.txt.gz", "--format snap --sort"),
}


def frame_of(path: Path) -> pl.DataFrame:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    has_header = not data[:1].isdigit()
    separator = "," if path.suffix == ".csv" else " "
    frame = pl.read_csv(data, has_header=has_header, separator=separator, infer_schema_length=None)
    return frame if has_header else frame.rename({name: f"c{n}" for n, name in enumerate(frame.columns)})


@pytest.fixture(scope="module", params=LOGS)
def log(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[str], Path]:
    """The text, its flags, and the data folder made of it."""
    folder = tmp_path_factory.mktemp(request.param)
    path, flags = LOGS[request.param](folder)
    convert(path, folder / "from-text", *flags)
    return path, flags, folder / "from-text"


def typed_flags(flags: list[str]) -> list[str]:
    """By position, where a format says so: a typed table has no format."""
    if "--format" not in flags:
        return flags
    rest = [flag for flag in flags if flag not in ("--format", "snap")]
    return ["--src", "0", "--dst", "1", "--time", "2", *rest]


def in_hive_folders(frame: pl.DataFrame, folder: Path) -> Path:
    """As Hive has them, whose names sort otherwise than their numbers."""
    size = -(-len(frame) // NUM_PARTS)
    for number in range(NUM_PARTS):
        part = folder / f"part={number}" / "events.parquet"
        part.parent.mkdir(parents=True)
        frame[number * size : (number + 1) * size].write_parquet(part, row_group_size=1000)
    (folder / "_SUCCESS").touch()
    return folder


WRITERS: dict[str, Callable[[pl.DataFrame, Path], Path]] = {
    "parquet": lambda frame, folder: frame.write_parquet(folder / "log.parquet") or folder / "log.parquet",
    "hive": in_hive_folders,
    "feather": lambda frame, folder: frame.write_ipc(folder / "log.feather") or folder / "log.feather",
    "stream": lambda frame, folder: frame.write_ipc_stream(folder / "log.arrows") or folder / "log.arrows",
    "json": lambda frame, folder: frame.write_ndjson(folder / "log.jsonl") or folder / "log.jsonl",
}


@pytest.mark.parametrize("form", WRITERS)
def test_a_typed_file_gives_the_folder_of_the_text(
    log: tuple[Path, list[str], Path], tmp_path: Path, form: str
) -> None:
    path, flags, made = log
    written = WRITERS[form](frame_of(path), tmp_path / "raw" if form == "hive" else tmp_path)
    convert(written, tmp_path / "out", *typed_flags(flags))
    assert hashes(tmp_path / "out") == hashes(made)


def options_of(flags: list[str]) -> dict[str, Any]:
    """What a call in Python says for them."""
    command = parse(["convert", "in", "out", *typed_flags(flags)])
    said = {field.name: getattr(command, field.name) for field in fields(command) if field.name != "paths"}
    return {name: value for name, value in said.items() if value != getattr(Convert, name)}


@pytest.mark.parametrize("kind", ["polars", "DuckDB"])
def test_a_table_in_memory_gives_the_folder_of_the_text(
    log: tuple[Path, list[str], Path], tmp_path: Path, kind: str
) -> None:
    path, flags, made = log
    table: Any = frame_of(path)
    if kind == "DuckDB":
        table = pytest.importorskip("duckdb").connect().from_arrow(table.to_arrow())
    data_prep.convert(table, tmp_path / "out", **options_of(flags))
    assert hashes(tmp_path / "out") == hashes(made)


def test_a_pipe_gives_the_folder_of_the_file(log: tuple[Path, list[str], Path], tmp_path: Path) -> None:
    path, flags, made = log
    command = [sys.executable, "-m", "data_prep", "convert", "-", str(tmp_path / "out"), *flags]
    with path.open("rb") as file:
        done = subprocess.run(command, cwd=ROOT, stdin=file, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert hashes(tmp_path / "out") == hashes(made)
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == sorted(
        each.name for each in made.iterdir()
    )
