"""The write-ahead file: observed events are on disk before anybody is told that they were taken.

    <checksum> {"format": 1, "id": …, "log": …, "events": …}                 which past it goes on from
    <checksum> [{"src": [7], "dst": [9], "time": [60]}, {"src": …}]          one commit: some calls

A commit is one line, written and synced at once. A crash can only leave a last line that is not whole, which
nobody was told of. Room on the disk is taken before events are recorded, so that a full disk refuses them.
"""

import json
import os
import uuid
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from tpnet_dist.errors import InputError
from tpnet_dist.files.atomic_write import atomic_write
from tpnet_dist.files.stored_json import parse_json
from tpnet_dist.files.typed_json import from_json

_FORMAT = 1
_ROOM = 1 << 20
_AROUND = len(b"01234567 []\n")
_COLUMNS = ("src", "dst", "time", "features")


@dataclass(frozen=True, kw_only=True)
class _Header:
    """Holds what the first line says."""

    format: int
    id: str
    log: str
    events: int


@dataclass(frozen=True)
class PastOfLog:
    """The log that events were observed after."""

    log: str
    """Its id."""
    events: int


@dataclass
class ObservedCalls:
    """Columns of all calls, one after another."""

    src: list[int | str] = field(default_factory=list)
    dst: list[int | str] = field(default_factory=list)
    time: list[int | float] = field(default_factory=list)
    features: list[list[float]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """How many events each call had."""

    def __len__(self) -> int:
        return len(self.src)

    def add(self, call: dict[str, Any]) -> None:
        for name in ("src", "dst", "time"):
            getattr(self, name).extend(call[name])
        self.features.extend(call.get("features", ()))
        self.sizes.append(len(call["src"]))


@dataclass(frozen=True)
class FoundJournal:
    """What a file holds."""

    id: str
    past: PastOfLog
    calls: ObservedCalls
    size: int
    """Where the last whole line ends."""


class Journal:
    """One file, one writer."""

    def __init__(self, path: Path, name: str, size: int) -> None:
        """Use `begin` or `go_on`."""
        self.path, self.id, self.size = path, name, size
        self._file: BinaryIO = path.open("r+b", buffering=0)
        self._room = size

    @classmethod
    def begin(cls, path: Path, past: PastOfLog) -> "Journal":
        name = uuid.uuid4().hex
        header = {"format": _FORMAT, "id": name, "log": past.log, "events": past.events}
        line = _line(json.dumps(header).encode())
        with atomic_write(path) as file:
            file.write(line)
        return cls(path, name, len(line))

    @classmethod
    def go_on(cls, path: Path, found: FoundJournal, past: PastOfLog) -> "Journal":
        """What was not written whole is cut off."""
        if found.past != past:
            raise InputError(
                f"{path}: goes on from event log {found.past.log} of {found.past.events:,} events, and the "
                f"data folder is {past.log} of {past.events:,}; give another --state to begin anew, or the "
                "data it goes on from"
            )
        journal = cls(path, found.id, found.size)
        journal._cut()
        return journal

    def reserve(self, calls: Sequence[bytes]) -> None:
        """OSError where the disk has no room for a commit of these calls."""
        end = self.size + _AROUND + sum(len(call) + 1 for call in calls)
        if end > self._room:
            os.posix_fallocate(self._file.fileno(), self._room, end - self._room + _ROOM)
            self._room = end + _ROOM

    def commit(self, calls: Sequence[bytes]) -> None:
        """Write these calls and sync: they are on disk on return. Room for them must have been reserved."""
        line = _line(b"[" + b",".join(calls) + b"]")
        self._file.seek(self.size)
        written = 0
        while written < len(line):
            written += self._file.write(line[written:])
        os.fdatasync(self._file.fileno())
        self.size += len(line)

    def close(self) -> None:
        self._cut()
        self._file.close()

    def _cut(self) -> None:
        self._file.truncate(self.size)
        os.fsync(self._file.fileno())
        self._room = self.size


def as_call(src: list[Any], dst: list[Any], time: list[Any], features: list[list[float]] | None) -> bytes:
    """A call as it is written."""
    call: dict[str, Any] = {"src": src, "dst": dst, "time": time}
    if features is not None:
        call["features"] = features
    return json.dumps(call, separators=(",", ":"), allow_nan=False).encode()


def _line(content: bytes) -> bytes:
    return b"%08x %s\n" % (zlib.crc32(content), content)


def read_journal(path: Path) -> FoundJournal:
    """All that was committed."""
    calls = ObservedCalls()
    with path.open("rb") as file:
        first = next(file, b"")
        try:
            header = from_json(_Header, _content(first))
        except InputError:
            header = None
        if header is None or header.format != _FORMAT:
            raise InputError(
                f"{path}: is no file of observed events of this version; restore it, or move it away to "
                "begin anew"
            )
        size = len(first)
        for line in file:
            if (commit := _content(line)) is None:
                _require_unfinished(path, size, file)
                break
            if not (isinstance(commit, list) and all(map(_is_call, commit))):
                raise InputError(
                    f"{path}: holds no events at byte {size:,}; restore the file, or move it away to begin "
                    "anew"
                )
            for call in commit:
                calls.add(call)
            size += len(line)
    return FoundJournal(header.id, PastOfLog(header.log, header.events), calls, size)


def _is_call(found: object) -> bool:
    """Whether it has columns of one length."""
    if not isinstance(found, dict) or not {"src", "dst", "time"} <= found.keys() <= set(_COLUMNS):
        return False
    columns = list(found.values())
    return all(isinstance(column, list) for column in columns) and len({*map(len, columns)}) == 1


def _content(line: bytes) -> Any:  # noqa: ANN401 — whatever JSON holds
    """Return what a line holds: None if it is not whole, an empty object if it is, but no JSON."""
    checksum, content = line[:8], line[9:-1]
    if not (line.endswith(b"\n") and checksum == b"%08x" % zlib.crc32(content)):
        return None
    try:
        return parse_json(content)
    except InputError:
        return {}


def _require_unfinished(path: Path, size: int, rest: Iterator[bytes]) -> None:
    """Refuse whole commits after one that is cut short: a crash cuts only the last, so this is damage."""
    if any(_content(line) is not None for line in rest):
        raise InputError(
            f"{path}: is damaged at byte {size:,}, and whole events follow; restore the file, or move it "
            "away to begin anew"
        )
