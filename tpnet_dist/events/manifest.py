"""`manifest.json`: what a data folder says about itself. Written last, so no manifest means no dataset."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tpnet_dist.errors import InputError

MANIFEST_NAME = "manifest.json"
FORMAT_NAME = "tpnet_dist event log"
FORMAT_VERSION = 1
DATA_FILE_NAMES = ("node_ids.parquet", "edge_features.npy", "node_features.npy")
SECONDS_PER_TICK = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True, kw_only=True)
class FileRecord:
    """A file of the folder, as it was when the folder was made."""

    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class ShardRecord(FileRecord):
    """A Parquet shard: consecutive events."""

    rows: int


@dataclass(frozen=True, kw_only=True)
class FeatureRecord(FileRecord):
    """A float32 `.npy` matrix with one row per event or per node."""

    rows: int
    width: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The contract between whoever wrote a data folder and whoever reads it."""

    log_id: str
    """Derived from the content; every shard carries it, so a shard of another log is noticed."""
    events: int
    nodes: int
    time_dtype: str
    """`int64` when every time is whole, else `float64`."""
    time_unit: str
    """What one unit of the time column is: s, ms, us or ns."""
    first_time: int | float
    last_time: int | float
    has_labels: bool
    bipartite: bool
    raw_id_dtype: str
    shards: tuple[ShardRecord, ...]
    node_ids: FileRecord
    edge_features: FeatureRecord | None
    node_features: FeatureRecord | None
    source: Mapping[str, Any]
    """Which command made the folder, from what. For people; nothing reads it."""

    @property
    def seconds_per_tick(self) -> float:
        return SECONDS_PER_TICK[self.time_unit]

    def files(self) -> list[FileRecord]:
        """Every file of the folder but the manifest itself."""
        optional = [self.edge_features, self.node_features]
        return [*self.shards, self.node_ids, *(record for record in optional if record is not None)]

    def content(self) -> dict[str, str]:
        """What ranks that see the same data agree on. The log's name alone does not tell features of other
        files apart."""
        return {
            "log_id": self.log_id,
            **{f"sha256 of {record.file}": record.sha256 for record in self.files()},
        }


def describe_file(path: Path) -> FileRecord:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileRecord(file=path.name, bytes=path.stat().st_size, sha256=digest)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    content = {"format": FORMAT_NAME, "format_version": FORMAT_VERSION, **asdict(manifest)}
    content["checksum"] = _checksum(content)
    (folder / MANIFEST_NAME).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def is_data_file(name: str) -> bool:
    """Whether a data folder may hold a file of this name."""
    return fnmatch(name, "events-*.parquet") or name in DATA_FILE_NAMES


def is_manifest(path: Path) -> bool:
    """Whether the file is a manifest of ours, of whatever version, intact or not."""
    return path.is_file() and f'"format": "{FORMAT_NAME}"' in path.read_text(errors="replace")[:200]


def read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST_NAME
    if folder.is_file():
        raise InputError(
            f"{folder}: is a file, not a data folder; "
            f"`python -m data_prep convert {folder} OUT` makes one of it"
        )
    if not folder.is_dir():
        raise InputError(f"{folder}: no such data folder; make one with `python -m data_prep convert`")
    if not path.is_file():
        raise InputError(
            f"{folder}: no {MANIFEST_NAME}, so this is not a complete data folder; convert again"
        )
    content = _parse(path)
    version = content.pop("format_version", None)
    if version != FORMAT_VERSION:
        raise InputError(
            f"{path}: format version {version!r} is unknown, this release reads version {FORMAT_VERSION}; "
            "convert the log again or use the release that wrote it"
        )
    stored = content.pop("checksum", None)
    if stored != _checksum({**content, "format_version": version}):
        raise InputError(
            f"{path}: checksum {stored!r} does not fit the content, so the manifest was edited; "
            "restore it or convert again"
        )
    if content.pop("format", None) != FORMAT_NAME:
        raise InputError(f"{path}: not the manifest of an event log; give a folder made by data_prep")
    return _build_manifest(path, content)


def _parse(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not complete JSON ({error}); restore it or convert again") from error
    if not isinstance(content, dict):
        raise InputError(
            f"{path}: holds a {type(content).__name__}, not an object; restore it or convert again"
        )
    return content


def _build_manifest(path: Path, content: dict[str, Any]) -> Manifest:
    known = {field.name for field in fields(Manifest)}
    if differing := known.symmetric_difference(content):
        raise InputError(
            f"{path}: keys {sorted(differing)} are missing or unknown; restore it or convert again"
        )
    content["shards"] = tuple(ShardRecord(**shard) for shard in content["shards"])
    content["node_ids"] = FileRecord(**content["node_ids"])
    for key in ("edge_features", "node_features"):
        content[key] = FeatureRecord(**content[key]) if content[key] else None
    return Manifest(**content)


def _checksum(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
