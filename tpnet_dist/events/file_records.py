"""The files of a data folder, as its manifest records them, and which of them a version of the log added."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from tpnet_dist.events.preparation import SourceRecord

DATA_FILE_NAMES = ("node_ids.parquet", "edge_features.npy", "node_features.npy")
_PART_NAME = re.compile(
    r"events-[0-9]{5,}\.parquet|node_ids-[0-9]{5,}\.parquet|(edge|node)_features-[0-9]{5,}\.npy"
)


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
    page_bytes: int | None = None
    """The size of each page that `page_sums` are of; None in manifests of earlier versions."""
    page_sums: str = ""
    """CRC-32 of each page, eight hexadecimal digits each: Parquet's own checksums are of values alone."""

    @property
    def has_right_sums(self) -> bool:
        """Whether there is one for each page."""
        if self.page_bytes is None:
            return not self.page_sums
        pages = -(-self.bytes // self.page_bytes)
        is_right_length = len(self.page_sums) == 8 * pages
        return is_right_length and bool(re.fullmatch(r"[0-9a-f]+", self.page_sums))


@dataclass(frozen=True, kw_only=True)
class FeatureRecord(FileRecord):
    """A float32 `.npy` matrix with one row per event or per node."""

    rows: int
    width: int
    page_bytes: int | None = None
    """The size of each page whose checksum follows the rows; None in files of earlier versions."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """The log as it was converted, or as it was after events were appended: a prefix of what it is now."""

    log_id: str
    """The id that the log had; shards that it added carry it."""
    events: int
    nodes: int
    last_time: float
    shards: int
    """The number of shards."""
    sha256: str
    """The checksum of the checksums of all its files."""
    node_ids: FileRecord | None = None
    """The file of the nodes that it added. For the conversion this and all files below are None: the manifest
    names them."""
    edge_features: FeatureRecord | None = None
    node_features: FeatureRecord | None = None
    sources: tuple[SourceRecord, ...] = ()
    """The files that were appended."""

    def added(self) -> list[FileRecord]:
        """Return its files beside shards."""
        parts = [self.node_ids, self.edge_features, self.node_features]
        return [part for part in parts if part is not None]


def describe_file(path: Path) -> FileRecord:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileRecord(file=path.name, bytes=path.stat().st_size, sha256=digest)


def is_added_file(name: str) -> bool:
    """Return whether it may be what an append added: a shard, or a further part of a file."""
    return bool(_PART_NAME.fullmatch(name))


def is_data_file(name: str) -> bool:
    """Return whether a data folder may hold a file of this name."""
    return bool(_PART_NAME.fullmatch(name)) or name in DATA_FILE_NAMES


def part_name(name: str, version: int) -> str:
    """Return the name of what a version adds to a file: `node_ids.parquet` goes on in
    `node_ids-00001.parquet`."""
    stem, _, suffix = name.partition(".")
    return f"{stem}-{version:05d}.{suffix}" if version else name
