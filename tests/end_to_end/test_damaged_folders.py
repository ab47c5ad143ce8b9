"""A data folder that is not what its manifest says is refused, whatever was done to it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.command_line import convert, describe, refusal


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three shards with a feature each."""
    return make_folder(tmp_path_factory.mktemp("intact"), weight=0.5)


def make_folder(parent: Path, weight: float) -> Path:
    raw = parent / "log.csv"
    rows = [f"{i % 7},{i % 5},{i},{weight * i}" for i in range(30)]
    raw.write_text("src,dst,time,w\n" + "\n".join(rows))
    convert(raw, parent / "data", "--features", "w", "--shard-events", "10")
    return parent / "data"


def edit_manifest(folder: Path, **changes: object) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def cut_short(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def flip_a_byte(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "manifest missing": lambda folder: (folder / "manifest.json").unlink(),
    "manifest truncated": lambda folder: cut_short(folder / "manifest.json", 200),
    "manifest a list": lambda folder: (folder / "manifest.json").write_text("[]"),
    "manifest hand-edited": lambda folder: edit_manifest(folder, events=31),
    "unknown format version": lambda folder: edit_manifest(folder, format_version=99),
    "shard missing": lambda folder: (folder / "events-00001.parquet").unlink(),
    "shard truncated": lambda folder: cut_short(folder / "events-00001.parquet", 500),
    "node ids missing": lambda folder: (folder / "node_ids.parquet").unlink(),
    "features missing": lambda folder: (folder / "edge_features.npy").unlink(),
    "features of wrong length": lambda folder: np.save(
        folder / "edge_features.npy", np.zeros((29, 1), np.float32)
    ),
    "features of another shape": lambda folder: np.save(
        folder / "edge_features.npy", np.zeros((15, 2), np.float32)
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_folder_is_refused(tmp_path: Path, intact: Path, damage: str) -> None:
    folder = shutil.copytree(intact, tmp_path / "data")
    DAMAGES[damage](folder)
    refusal("describe", folder)


def test_shard_of_another_log_with_the_same_size_is_noticed(tmp_path: Path, intact: Path) -> None:
    folder = shutil.copytree(intact, tmp_path / "data")
    (tmp_path / "other").mkdir()
    other = make_folder(tmp_path / "other", weight=0.25)
    name = "events-00001.parquet"
    shutil.copy(other / name, folder / name)
    assert (other / name).stat().st_size == (intact / name).stat().st_size
    refusal("describe", folder)


@pytest.mark.parametrize("name", ["edge_features.npy", "events-00002.parquet", "node_ids.parquet"])
def test_changed_data_is_found_by_verify(tmp_path: Path, intact: Path, name: str) -> None:
    folder = shutil.copytree(intact, tmp_path / "data")
    flip_a_byte(folder / name, position=60 if name.endswith("parquet") else -2)
    refusal("describe", folder, "--verify")


def test_changed_events_are_found_without_verify_too(tmp_path: Path, intact: Path) -> None:
    folder = shutil.copytree(intact, tmp_path / "data")
    flip_a_byte(folder / "events-00002.parquet", position=60)
    refusal("describe", folder)


def test_intact_folder_passes_verify(intact: Path) -> None:
    summary = describe(intact, "--verify")
    assert summary["verified"] is True
    assert summary["events"] == 30


def test_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    refusal("describe", tmp_path / "absent")
