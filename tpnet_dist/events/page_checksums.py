"""Checksums of large files, page by page: what is read is compared with them when it is first touched.

Of shards they stand in the manifest. Of feature files, which have many more pages, they follow the rows,
where programs that read `.npy` files do not look:

    header and rows | a CRC-32 for each page of these | the CRC-32 of those, and a mark
"""

import os
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from tpnet_dist.errors import InputError

PAGE_BYTES = 1 << 16
"""The page size of feature files, whose rows are read in any order."""
SHARD_PAGE_BYTES = 1 << 20
_MARK = b"TPNPAGES"
_CRC = np.dtype("<u4")
_REMEDY = "restore it or convert again"

Numbers = npt.NDArray[np.int64]


class PageSums:
    """Sums pages of what is appended to a file; the first page, whose header is written last, comes last."""

    def __init__(self) -> None:
        self._sums: list[int] = []
        self._running, self._filled = 0, 0

    def add(self, content: memoryview) -> None:
        while len(content):
            here = content[: PAGE_BYTES - self._filled]
            self._running, self._filled = zlib.crc32(here, self._running), self._filled + len(here)
            content = content[len(here) :]
            if self._filled == PAGE_BYTES:
                self._end_page()

    def write(self, file: BinaryIO) -> None:
        """Append the sums to a file that is otherwise complete."""
        if self._filled:
            self._end_page()
        file.seek(0)
        self._sums[0] = zlib.crc32(file.read(PAGE_BYTES))
        table = np.array(self._sums, _CRC).tobytes()
        file.seek(0, os.SEEK_END)
        file.write(table + _tail(table))

    def _end_page(self) -> None:
        self._sums.append(self._running)
        self._running = self._filled = 0


class PageCheck:
    """Knows which pages of a file were compared with their checksums, and compares the others when asked."""

    def __init__(
        self, path: Path, content_bytes: int, page_bytes: int | None, sums: str | None = None
    ) -> None:
        """`page_bytes`: None for files of before there were checksums. `sums`: as digits; by default those
        that follow the content."""
        self._path, self._content_bytes, self._page_bytes = path, content_bytes, page_bytes or PAGE_BYTES
        if page_bytes is None and path.stat().st_size > content_bytes:
            raise InputError(
                f"{path}: goes on after its rows, where the manifest knows of no checksums; {_REMEDY}"
            )
        num_pages = -(-content_bytes // self._page_bytes)
        self._is_checked = np.full(num_pages, page_bytes is None)
        self._num_unchecked = 0 if page_bytes is None else num_pages
        self._sums = np.empty(0, _CRC)
        if page_bytes is not None:
            given = None if sums is None else np.frombuffer(bytes.fromhex(sums), _CRC)
            self._sums = self._read_sums(num_pages) if given is None else given

    def require(self, first_bytes: Numbers, last_bytes: Numbers) -> None:
        """InputError if what lies from each first byte to its last one is not what was written."""
        # a mapped file that shrinks would end the process without a word
        if self._path.stat().st_size < self._content_bytes:
            raise InputError(f"{self._path}: has become shorter while it was in use; {_REMEDY}")
        if not self._num_unchecked or not first_bytes.size:
            return
        first, last = first_bytes // self._page_bytes, last_bytes // self._page_bytes
        for further in range(int((last - first).max()) + 1):
            pages = np.minimum(first + further, last)
            for page in np.unique(pages[~self._is_checked[pages]]).tolist():
                self._check(page)

    def require_range(self, start: int, stop: int) -> None:
        """The same for one range, which is not empty."""
        self.require(np.array([start]), np.array([stop - 1]))

    def _check(self, page: int) -> None:
        start = page * self._page_bytes
        content = self._read(start, min(self._page_bytes, self._content_bytes - start))
        if zlib.crc32(content) != self._sums[page]:
            raise InputError(
                f"{self._path}: bytes {start:,} to {start + len(content):,} are not what was written, by "
                f"their checksum; {_REMEDY}"
            )
        self._is_checked[page] = True
        self._num_unchecked -= 1

    def _read_sums(self, num_pages: int) -> npt.NDArray[np.uint32]:
        size = num_pages * _CRC.itemsize
        stored = self._read(self._content_bytes, size + len(_tail(b"")) + 1)
        table = stored[:size]
        if stored[size:] != _tail(table):
            raise InputError(f"{self._path}: the checksums at its end are damaged; {_REMEDY}")
        return np.frombuffer(table, _CRC)

    def _read(self, start: int, size: int) -> bytes:
        # opened anew: a log may have more shards than a process may have open files
        with self._path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), size, start)


def sums_of(path: Path, page_bytes: int) -> str:
    """Checksums of a file's pages, as digits."""
    with path.open("rb") as file:
        sums = [zlib.crc32(page) for page in iter(lambda: file.read(page_bytes), b"")]
    return np.array(sums, _CRC).tobytes().hex()


def _tail(table: bytes) -> bytes:
    return zlib.crc32(table).to_bytes(4, "little") + _MARK
