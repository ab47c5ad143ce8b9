"""Open raw text files, plain or compressed, for the fast reader and for the one that explains errors."""

import io
from pathlib import Path
from typing import Any

import pyarrow as pa

from tpnet_dist.errors import InputError

_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_HEAD_BYTES = 1 << 18


class RawFile:
    """An input file open for reading; `bytes_read` counts bytes on disk, also of compressed files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise InputError(f"{path}: no such file; check the path")
        self.bytes_on_disk = path.stat().st_size
        self._disk = pa.OSFile(str(path))
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


def open_text(path: Path) -> io.TextIOWrapper:
    """The file as text lines; undecodable bytes stay visible instead of stopping the search for an error."""
    return io.TextIOWrapper(
        io.BufferedReader(RawFile(path).stream, 1 << 20),
        encoding="utf-8-sig",
        errors="backslashreplace",
        newline="",
    )


def first_lines(path: Path, count: int) -> list[str]:
    """The first lines without their ends; fewer if the file is short or its lines are very long."""
    with RawFile(path) as raw:
        try:
            head = raw.stream.read(_HEAD_BYTES)
        except OSError as error:
            raise unreadable(path, error) from error
    lines: list[str] = head.decode("utf-8-sig", errors="replace").splitlines()
    if len(head) == _HEAD_BYTES and len(lines) > 1:
        lines.pop()  # probably cut in the middle
    return lines[:count]


def unreadable(path: Path, error: Exception) -> InputError:
    return InputError(
        f"{path}: cannot be decompressed or read ({error}); the file is damaged, fetch or compress it again"
    )


def _compression(magic: bytes) -> str | None:
    return next((name for start, name in _MAGIC.items() if magic.startswith(start)), None)
