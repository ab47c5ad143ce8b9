"""Open raw text files, plain or compressed, for the fast reader and for the one that explains errors."""

import csv
import io
import re
from typing import Any

import pyarrow as pa

from data_prep.places import Place
from tpnet_dist.errors import InputError

_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
_HEAD_BYTES = 1 << 18
_LONGEST_HEAD = 1 << 28
_LINE_END = re.compile(r"\r\n|\n|\r")

csv.field_size_limit(_LONGEST_HEAD)


class RawFile:
    """A text file open for reading; `bytes_read` counts bytes on disk, also of compressed files."""

    def __init__(self, place: Place) -> None:
        self._disk = place.open()
        compression = _compression(self._disk.read(4))
        self._disk.seek(0)
        self.stream: Any = pa.CompressedInputStream(self._disk, compression) if compression else self._disk

    @property
    def bytes_read(self) -> int:
        return 0 if self._disk.closed else int(self._disk.tell())

    def close(self) -> None:
        self.stream.close()
        self._disk.close()

    def __enter__(self) -> "RawFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_text(place: Place) -> io.TextIOWrapper:
    """Open the file as text lines; undecodable bytes become surrogates, so that their line can be named."""
    return io.TextIOWrapper(
        io.BufferedReader(RawFile(place).stream, 1 << 20),
        encoding="utf-8-sig",
        errors="surrogateescape",
        newline="",
    )


def is_compressed(place: Place) -> bool:
    with place.open() as file:
        return _compression(file.read(4)) is not None


def first_bytes(place: Place, count: int) -> bytes:
    """Return the first bytes of what the file holds, uncompressed."""
    with RawFile(place) as raw:
        try:
            return bytes(raw.stream.read(count))
        except OSError as error:
            raise unreadable(place, error) from error


def first_lines(place: Place, *, comment: str | None) -> list[str]:
    """Return the lines at the file's head, without their ends: all of a short file, else at least two that
    are not comments, however long."""
    head, size = b"", _HEAD_BYTES
    with RawFile(place) as raw:
        try:
            while len(head) < _LONGEST_HEAD:
                more = raw.stream.read(size)
                head, size = head + more, 2 * size
                lines = _LINE_END.split(head.decode("utf-8-sig", errors="replace"))
                if not more:
                    return lines if lines[-1] else lines[:-1]
                if sum(1 for line in lines[:-1] if line.strip() and not is_comment(line, comment)) >= 2:
                    return lines[:-1]  # the last one is probably cut in the middle
        except OSError as error:
            raise unreadable(place, error) from error
    raise InputError(
        f"{place.name}: the first lines are longer than {_LONGEST_HEAD:,} bytes; is this a text file?"
    )


def is_comment(line: str, comment: str | None) -> bool:
    return comment is not None and line.startswith(comment)


def unreadable(place: Place, error: Exception) -> InputError:
    return InputError(
        f"{place.name}: cannot be decompressed or read ({error}); the file is damaged, fetch or compress "
        "it again"
    )


def _compression(magic: bytes) -> str | None:
    return next((name for start, name in _MAGIC.items() if magic.startswith(start)), None)
