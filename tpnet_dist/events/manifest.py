"""`manifest.json`: what a data folder says about itself. Written last, so no manifest means no dataset."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from tpnet_dist.errors import InputError
from tpnet_dist.events.preparation import Preparation
from tpnet_dist.files.typed_json import from_json, to_json

MANIFEST_NAME = "manifest.json"
FORMAT_NAME = "tpnet_dist event log"
FORMAT_VERSION = 2
READABLE_VERSIONS = (1, 2)
DATA_FILE_NAMES = ("node_ids.parquet", "edge_features.npy", "node_features.npy")
SECONDS_PER_TICK = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
MAX_NODES = 2**31 - 1
TimeType = Literal["int64", "float64"]
TickUnit = Literal["s", "ms", "us", "ns"]
RawIdType = Literal["int64", "string", "large_string"]
_SHARD_NAME = re.compile(r"events-[0-9]{5,}\.parquet")
_SHA256 = re.compile(r"[0-9a-f]{64}")


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
    time_dtype: TimeType
    """`int64` when every time is whole, else `float64`."""
    time_unit: TickUnit
    """What one unit of the time column is."""
    first_time: float
    """An int where times are."""
    last_time: float
    has_labels: bool
    bipartite: bool
    raw_id_dtype: RawIdType
    shards: tuple[ShardRecord, ...]
    node_ids: FileRecord
    edge_features: FeatureRecord | None = None
    node_features: FeatureRecord | None = None
    source: dict[str, object]
    """Which command made the folder, from what. For people; nothing reads it."""
    preparation: Preparation | None = None
    """How rows of the user's files became events; None for logs that were made otherwise."""

    @property
    def seconds_per_tick(self) -> float:
        return SECONDS_PER_TICK[self.time_unit]

    @property
    def span_seconds(self) -> float:
        """From the first event to the last."""
        return (self.last_time - self.first_time) * self.seconds_per_tick

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
    content = {"format": FORMAT_NAME, "format_version": FORMAT_VERSION, **to_json(manifest)}
    content["checksum"] = _checksum(content)
    (folder / MANIFEST_NAME).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def is_data_file(name: str) -> bool:
    """Whether a data folder may hold a file of this name."""
    return bool(_SHARD_NAME.fullmatch(name)) or name in DATA_FILE_NAMES


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
    if type(version) is not int or version not in READABLE_VERSIONS:
        known = " and ".join(map(str, READABLE_VERSIONS))
        raise InputError(
            f"{path}: format version {version!r} is unknown, this release reads versions {known}; "
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
    try:
        manifest = from_json(Manifest, content)
        _require_ranges(manifest)
    except InputError as error:
        raise InputError(f"{path}: {error}; restore it or convert again") from error
    return manifest


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


def _require_ranges(manifest: Manifest) -> None:
    """Types are right; refuse what no folder of ours says: InputError, without the file and the remedy."""
    features = [record for record in (manifest.edge_features, manifest.node_features) if record is not None]
    rules = chain(
        [
            ("events", manifest.events, manifest.events >= 1, "at least 1"),
            ("nodes", manifest.nodes, 1 <= manifest.nodes <= MAX_NODES, f"within 1…{MAX_NODES:,}"),
            ("shards", len(manifest.shards), bool(manifest.shards), "at least one"),
            (
                "last_time",
                manifest.last_time,
                manifest.first_time <= manifest.last_time,
                f"at least first_time, {manifest.first_time}",
            ),
        ],
        *(_rules_of(record) for record in manifest.files()),
        *(
            [
                (f"rows of {each.file}", each.rows, each.rows >= 1, "at least 1"),
                (f"width of {each.file}", each.width, each.width >= 1, "at least 1"),
            ]
            for each in features
        ),
        ((f"rows of {shard.file}", shard.rows, shard.rows >= 1, "at least 1") for shard in manifest.shards),
    )
    for field, value, is_right, rule in rules:
        if not is_right:
            raise InputError(f"{field} is {value!r:.80}, but must be {rule}")
    rows = sum(shard.rows for shard in manifest.shards)
    if rows != manifest.events:
        raise InputError(f"shards hold {rows:,} events, but events is {manifest.events:,}")


def _rules_of(record: FileRecord) -> list[tuple[str, object, bool, str]]:
    return [
        ("a file", record.file, is_data_file(record.file), "the name of a data file"),
        (f"bytes of {record.file}", record.bytes, record.bytes >= 0, "at least 0"),
        (
            f"sha256 of {record.file}",
            record.sha256,
            bool(_SHA256.fullmatch(record.sha256)),
            "64 hexadecimal digits",
        ),
    ]


def _checksum(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
