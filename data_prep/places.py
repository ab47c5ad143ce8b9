"""Places of raw files: paths, folders, globs, standard input and URLs, each as files that can be opened."""

import fnmatch
import glob
import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from tpnet_dist.errors import InputError
from tpnet_dist.events.file_records import describe_file
from tpnet_dist.events.preparation import SourceRecord

STANDARD_INPUT = "-"
_URL = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+)://")
_GLOB = re.compile(r"[*?\[]")
_SECRET = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+://)[^/?]*@")
_NUMBERS = re.compile(r"(\d+)")
_PARTITION = re.compile(r"([^/=]+)=([^/]*)/")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def inputs_and_folder(paths: Sequence[str], folder_name: str) -> tuple[list[str], str]:
    """Return what a command reads, and the folder it makes or changes, which is named last."""
    if len(paths) < 2:
        raise InputError(f"{len(paths)} path given; give at least one input file and the {folder_name}")
    *inputs, folder = map(str, paths)
    return inputs, folder


@dataclass(frozen=True)
class Place:
    """A file, as it was when it was found."""

    name: str
    """The name that the user calls it by; for a file in a folder, with the folder."""
    path: str
    """The path within its file system."""
    system: fs.FileSystem
    info: fs.FileInfo
    is_spooled: bool = False

    @property
    def num_bytes(self) -> int:
        return int(self.info.size or 0)

    @property
    def is_local(self) -> bool:
        return isinstance(self.system, fs.LocalFileSystem)

    def partitions(self) -> dict[str, str | None]:
        """Return columns from the names of folders as Hive has them: day=2024-01-31/part-0.parquet."""
        found = {unquote(key): unquote(value) for key, value in _PARTITION.findall(self.path)}
        return {key: None if value == _NO_VALUE else value for key, value in found.items()}

    def open(self) -> pa.NativeFile:
        try:
            return pa.OSFile(self.path) if self.is_local else self.system.open_input_file(self.path)
        except OSError as error:
            raise _refusal(self.name, error) from error

    def require_unchanged(self) -> None:
        """Refuse a file that somebody wrote to while it was read."""
        try:
            now = self.system.get_file_info(self.path)
        except OSError as error:
            raise _refusal(self.name, error) from error
        if (now.type, now.size, now.mtime_ns) != (self.info.type, self.info.size, self.info.mtime_ns):
            raise InputError(
                f"{self.name}: was changed while it was read, so what was read may be half of two versions; "
                "convert again when nobody writes to it"
            )

    def record(self) -> SourceRecord:
        """Return what the file is now; its hash only where reading it costs no traffic."""
        self.require_unchanged()
        if not self.is_local:
            return SourceRecord(name=self.name, bytes=self.num_bytes)
        described = describe_file(Path(self.path))
        self.require_unchanged()
        # without the folder: the same input gives the same manifest wherever it lies
        return SourceRecord(name=Path(self.name).name, bytes=described.bytes, sha256=described.sha256)


def places_of(inputs: Sequence[str], spool: Path) -> list[Place]:
    """Return all files that the inputs stand for, in the order given, those of a folder by name with numbers
    as numbers. `spool`: where standard input is kept, since it is read more than once."""
    if inputs.count(STANDARD_INPUT) > 1:
        raise InputError("- is given twice, but standard input can be read once; give it once")
    places = [place for given in inputs for place in _places_of(given, spool)]
    seen: set[str] = set()
    for place in places:
        # by links and other spellings, a file has several paths
        path = os.path.realpath(place.path) if place.is_local else place.path
        if path in seen:
            raise InputError(f"{place.name}: is given twice, which would double its events; give it once")
        seen.add(path)
    return places


def _places_of(given: str, spool: Path) -> list[Place]:
    if given == STANDARD_INPUT:
        return [_spooled(spool)]
    if match := _URL.match(given):
        return _at_url(given, match[1])
    system = fs.LocalFileSystem()
    path = Path(given)
    if path.is_dir():
        return _in_folder(system, given, given)
    if not path.exists() and _GLOB.search(given):
        matches = glob.glob(given, recursive=True)  # noqa: PTH207 — of absolute patterns too
        found = sorted((each for each in matches if Path(each).is_file()), key=_natural)
        if not found:
            raise InputError(f"{given}: no file matches; check the pattern")
        return [_local(system, each) for each in found]
    if not path.exists():
        raise InputError(f"{given}: no such file; check the path")
    return [_local(system, given)]


def _local(system: fs.FileSystem, name: str) -> Place:
    if not Path(name).is_file():
        raise InputError(f"{name}: is not a regular file; give files, folders, or - for standard input")
    return Place(name, name, system, system.get_file_info(name))


def _spooled(spool: Path) -> Place:
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError("-: standard input is a terminal; pipe a file into the command")
    path = spool / "standard_input"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
    system = fs.LocalFileSystem()
    return Place("standard input", str(path), system, system.get_file_info(str(path)), is_spooled=True)


def _at_url(address: str, scheme: str) -> list[Place]:
    given = without_secret(address)
    try:
        # a * or ? is a pattern here, but ?key=value says how to reach the bucket
        address, mark, options = address.partition("?")
        system, path = fs.FileSystem.from_uri(_escaped(address) + mark + options)
        path = path.replace("%2A", "*")
        if _GLOB.search(path):
            return _matching(system, given, path)
        info = system.get_file_info(path)
    except InputError:
        raise
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise _refusal(given, error, scheme) from error
    if info.type == fs.FileType.Directory:
        return _in_folder(system, given, path)
    if info.type != fs.FileType.File:
        raise InputError(f"{given}: no such file or folder; check the address, and the bucket's name in it")
    return [Place(given, path, system, info)]


def without_secret(address: str) -> str:
    """Leave key and password out of s3://key:secret@bucket/log.csv, for people and the manifest."""
    return _SECRET.sub(r"\1", address)


def _escaped(address: str) -> str:
    return address.replace("*", "%2A")


def _matching(system: fs.FileSystem, given: str, pattern: str) -> list[Place]:
    base = pattern[: _GLOB.search(pattern).start()].rpartition("/")[0]  # type: ignore[union-attr]
    infos = system.get_file_info(fs.FileSelector(base, recursive=True))
    found = [info for info in infos if info.is_file and fnmatch.fnmatchcase(info.path, pattern)]
    if not found:
        raise InputError(f"{given}: no file matches; check the pattern")
    found.sort(key=lambda info: _natural(info.path))
    return [Place(_address(given, info.path), info.path, system, info) for info in found]


def _in_folder(system: fs.FileSystem, given: str, path: str) -> list[Place]:
    """Return all files below it but hidden ones and those of other programs, such as _SUCCESS."""
    try:
        infos = system.get_file_info(fs.FileSelector(path, recursive=True))
    except OSError as error:
        raise _refusal(given, error) from error
    found = []
    for info in sorted(infos, key=lambda each: _natural(each.path)):
        below = info.path.removeprefix(path).strip("/").split("/")
        if info.is_file and not any(part.startswith((".", "_")) for part in below):
            name = info.path if isinstance(system, fs.LocalFileSystem) else _address(given, info.path)
            found.append(Place(name, info.path, system, info))
    if not found:
        raise InputError(f"{given}: the folder holds no files; give one with events")
    return found


def _address(given: str, path: str) -> str:
    scheme = _URL.match(given)
    return f"{scheme[1]}://{path}" if scheme else path


def _natural(path: str) -> list[tuple[int, str]]:
    """Return a key by which part-2 comes before part-10."""
    parts = _NUMBERS.split(path)
    return [(int(part) if number % 2 else 0, part) for number, part in enumerate(parts)]


def _refusal(name: str, error: Exception, scheme: str = "") -> InputError:
    text = " ".join(str(error).split())
    if isinstance(error, PermissionError) or "ACCESS_DENIED" in text or "HTTP status 403" in text:
        remedy = "check the credentials and the rights to read it"
    elif "NO_SUCH_BUCKET" in text or "HTTP status 404" in text or isinstance(error, FileNotFoundError):
        remedy = "check the bucket's name and the path"
    elif "NETWORK_CONNECTION" in text or "connect" in text.lower():
        remedy = "check the endpoint and the network"
    elif scheme not in ("s3", "gs", "gcs", "file", "hdfs", ""):
        return InputError(
            f"{name}: {scheme}:// cannot be read; give s3://, gs://, file:// or a path, or fetch it and pipe "
            "it in with -"
        )
    else:
        remedy = "check the address and the credentials"
    # of what a bucket's server says, the code: the rest differs from time to time, and may hold keys
    code = re.search(r"AWS Error (\w+)", text)
    return InputError(f"{name}: cannot be opened ({code[1] if code else _without_keys(text):.200}); {remedy}")


def _without_keys(text: str) -> str:
    return re.sub(r"://[^/\s]*@", "://", text)
