"""`manifest.json`: what a data folder says about itself. Written last, so no manifest means no dataset."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from tpnet_dist.errors import InputError
from tpnet_dist.events.file_records import FeatureRecord, FileRecord, ShardRecord, Version, is_data_file
from tpnet_dist.events.preparation import Preparation
from tpnet_dist.files.typed_json import from_json, to_json

MANIFEST_NAME = "manifest.json"
FORMAT_NAME = "tpnet_dist event log"
FORMAT_VERSION, GROWN_FORMAT_VERSION = 2, 3
"""The format of a folder as it was converted, and of one that events were appended to."""
READABLE_VERSIONS = (1, 2, 3)
SECONDS_PER_TICK = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
MAX_NODES = 2**31 - 1
TimeType = Literal["int64", "float64"]
TickUnit = Literal["s", "ms", "us", "ns"]
RawIdType = Literal["int64", "string", "large_string"]
_SHA256 = re.compile(r"[0-9a-f]{64}")


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
    """The unit of the time column."""
    first_time: float
    """The time of the first event; an int where times are."""
    last_time: float
    has_labels: bool
    bipartite: bool
    raw_id_dtype: RawIdType
    shards: tuple[ShardRecord, ...]
    node_ids: FileRecord
    edge_features: FeatureRecord | None = None
    node_features: FeatureRecord | None = None
    source: dict[str, object]
    """The command that made the folder, and its input. For people; nothing reads it."""
    preparation: Preparation | None = None
    """How rows of the user's files became events; None for logs that were made otherwise."""
    versions: tuple[Version, ...] = ()
    """The conversion, then every append; empty before the first."""

    @property
    def seconds_per_tick(self) -> float:
        return SECONDS_PER_TICK[self.time_unit]

    @property
    def span_seconds(self) -> float:
        """The seconds from the first event to the last."""
        return (self.last_time - self.first_time) * self.seconds_per_tick

    def files(self) -> list[FileRecord]:
        """Return every file of the folder but the manifest itself."""
        added = [record for version in self.versions for record in version.added()]
        return [*self.shards, *self._converted(), *added]

    @property
    def history(self) -> tuple[Version, ...]:
        """All versions, of which the last is the log as it is."""
        return self.versions or (self._as_version(),)

    def with_version(self, **added: Any) -> "Manifest":  # noqa: ANN401 — fields of Version
        """Return the manifest after an append, of which all but files and sources is said already."""
        version = replace(self._as_version(), **added)
        grown = replace(self, versions=(*self.versions, version))
        version = replace(version, sha256=grown.prefix_sha256(len(self.versions)))
        return replace(grown, versions=(*self.versions, version))

    def at(self, log_id: str) -> "Manifest | None":
        """Return the manifest as it was when the log had this id; None if it never had."""
        place = next((n for n, each in enumerate(self.history) if each.log_id == log_id), None)
        if place is None or place == len(self.history) - 1:
            return None if place is None else self
        then = self.versions[place]
        return replace(
            self,
            log_id=log_id,
            events=then.events,
            nodes=then.nodes,
            last_time=then.last_time,
            shards=self.shards[: then.shards],
            versions=self.versions[: place + 1],
        )

    def log_id_of_shard(self, number: int) -> str:
        return next(each.log_id for each in self.history if number < each.shards)

    def parts_of(self, name: str) -> list[FileRecord]:
        """Return the records of `node_ids`, `edge_features` or `node_features`, version by version."""
        records = [getattr(self, name), *(getattr(version, name) for version in self.versions)]
        return [record for record in records if record is not None]

    def prefix_sha256(self, place: int) -> str:
        """Return the checksum of all files of a version."""
        records = [*self.shards[: self.versions[place].shards], *self._converted()]
        records += [record for version in self.versions[: place + 1] for record in version.added()]
        return hashlib.sha256("".join(record.sha256 for record in records).encode()).hexdigest()

    def _converted(self) -> list[FileRecord]:
        optional = [self.edge_features, self.node_features]
        return [self.node_ids, *(record for record in optional if record is not None)]

    def _as_version(self) -> Version:
        checksums = "".join(record.sha256 for record in self.files())
        return Version(
            log_id=self.log_id,
            events=self.events,
            nodes=self.nodes,
            last_time=self.last_time,
            shards=len(self.shards),
            sha256=hashlib.sha256(checksums.encode()).hexdigest(),
        )

    def content(self) -> dict[str, str]:
        """Return what ranks that see the same data agree on. The log's name alone does not tell features of
        other files apart."""
        return {
            "log_id": self.log_id,
            **{f"sha256 of {record.file}": record.sha256 for record in self.files()},
        }


def write_manifest(folder: Path, manifest: Manifest) -> None:
    version = GROWN_FORMAT_VERSION if manifest.versions else FORMAT_VERSION
    content = {"format": FORMAT_NAME, "format_version": version, **to_json(manifest)}
    if not manifest.versions:
        del content["versions"]
    content["checksum"] = _checksum(content)
    (folder / MANIFEST_NAME).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def is_manifest(path: Path) -> bool:
    """Return whether the file is a manifest of ours, of whatever version, intact or not."""
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
        known = ", ".join(map(str, READABLE_VERSIONS))
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
    """Refuse values, whose types are right, that no folder of ours has: InputError, without the file and the
    remedy."""
    features = [record for record in manifest.files() if isinstance(record, FeatureRecord)]
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
    for place, version in enumerate(manifest.versions):
        _require_version(manifest, place, version)


def _require_version(manifest: Manifest, place: int, version: Version) -> None:
    """Refuse a version that is no prefix of the log, and a last one that is not the log."""
    before = manifest.versions[place - 1] if place else None
    is_last = place == len(manifest.versions) - 1
    rows = sum(shard.rows for shard in manifest.shards[: version.shards])
    rules = [
        ("events", version.events, version.events == rows, f"{rows:,}, the events of its shards"),
        ("nodes", version.nodes, before is None or version.nodes >= before.nodes, "no fewer than before"),
        ("shards", version.shards, before is None or version.shards > before.shards, "more than before"),
        ("log_id", version.log_id, not is_last or version.log_id == manifest.log_id, manifest.log_id),
        ("shards", version.shards, not is_last or version.shards == len(manifest.shards), "all there are"),
        ("nodes", version.nodes, not is_last or version.nodes == manifest.nodes, "all there are"),
        (
            "sha256",
            version.sha256,
            version.sha256 == manifest.prefix_sha256(place),
            "what its files' checksums come to",
        ),
    ]
    for field, value, is_right, rule in rules:
        if not is_right:
            raise InputError(f"{field} of version {place} is {value!r:.80}, but must be {rule}")


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
