"""Quotes in delimited text that swallow rows: a quote that is opened and not closed makes the rest of a file,
or all up to the next quote, one value. A fast parser takes it so without a word."""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

_NEWLINE = b"\n"
_BLOCK_BYTES = 16 << 20
_BEGINS_AS_NUMBER = re.compile(r"\s*[-+.]?\d")
"""As numbers and dates do."""
_NEWLINES = re.compile(r"[\r\n]")


class LineCount:
    """Counts lines that hold something, and quotes, block by block of a file's bytes."""

    def __init__(self) -> None:
        self.num_quotes = 0
        self._ends = self._empty = 0
        self._before = _NEWLINE
        self._pending_return = False

    def add(self, block: bytes) -> None:
        self.num_quotes += block.count(b'"')
        if self._pending_return:
            block = b"\r" + block
        self._pending_return = block.endswith(b"\r")
        block = block.removesuffix(b"\r") if self._pending_return else block
        if b"\r" in block:
            block = block.replace(b"\r\n", _NEWLINE).replace(b"\r", _NEWLINE)
        if not block:
            return
        self._ends += block.count(_NEWLINE)
        self._empty += _num_empty(self._before + block)
        self._before = block[-1:]

    def num_lines(self) -> int:
        """Return the number of lines that hold something; call it at the end of the file."""
        if self._pending_return:
            self._pending_return = False
            self.add(_NEWLINE)
        return self._ends - self._empty + (self._before != _NEWLINE)


def _num_empty(block: bytes) -> int:
    """Count ends of lines that directly follow ends of lines."""
    if b"\n\n" not in block:
        return 0
    is_end = np.frombuffer(block, np.uint8) == ord(_NEWLINE)
    return int(np.count_nonzero(is_end[1:] & is_end[:-1]))


class EventLines(io.RawIOBase):
    """The bytes of a text file from its first event on, without comment lines, and how many lines they
    are."""

    def __init__(self, stream: Any, lines_before: int, comment: str | None) -> None:  # noqa: ANN401
        """`stream`: anything to read bytes from."""
        self.count = LineCount()
        self._stream, self._lines_before = stream, lines_before
        self._comment = None if comment is None else re.escape(comment.encode())
        self._rest = b""
        self._ended = False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while True:
            block = bytes(self._stream.read(_BLOCK_BYTES if size < 0 else size))
            self._ended = not block
            if self._lines_before:
                block = self._without_head(block)
            elif self._comment is not None:
                block = self._without_comments(block)
            if block or self._ended:
                self.count.add(block)
                return block

    def _without_head(self, block: bytes) -> bytes:
        block = self._rest + block
        ends = list(islice(re.finditer(rb"\r\n|\n|\r(?=.)|\r$", block, re.DOTALL), self._lines_before))
        if len(ends) < self._lines_before and not self._ended:
            self._rest = block
            return b""
        self._rest, self._lines_before = b"", 0
        block = block[ends[-1].end() :] if ends else b""
        return block if self._comment is None else self._without_comments(block)

    def _without_comments(self, block: bytes) -> bytes:
        """Remove comments from whole lines only: what follows the last line's end waits."""
        block = self._rest + block
        end = len(block) if self._ended else block.rfind(b"\n") + 1
        block, self._rest = block[:end], block[end:]
        return re.sub(rb"(?m)^" + (self._comment or b"") + rb"[^\n]*(\n|\Z)", b"", block)


def find_open_quote(lines: Iterable[str], delimiter: str) -> tuple[int, str] | None:
    """Return the number, from 0, of the line where a row begins whose quotes are wrong, and what is wrong;
    None if all are right."""
    of_row: list[str] = []
    reader = csv.reader(_kept(lines, of_row), delimiter=delimiter, strict=True)
    begin = 0
    try:
        for row in reader:
            further = of_row[1:]
            if further and _are_rows(further, row, delimiter):
                count = len(of_row)
                return begin, f"a quote makes one value of {count:,} lines, each of which is a row by itself"
            begin = reader.line_num
            of_row.clear()
    except csv.Error as error:
        is_open = "unexpected end" in str(error)
        what = (
            "a quote is opened here and never closed, which makes one value of all lines after it"
            if is_open
            else f"a quoted value runs over its end ({error})"
        )
        return begin, what
    return None


def _kept(lines: Iterable[str], of_row: list[str]) -> Iterator[str]:
    for line in lines:
        of_row.append(line)
        yield line


def _are_rows(lines: list[str], row: list[str], delimiter: str) -> bool:
    """Whether lines within a value, those with nothing in them aside, are rows by themselves: as many fields,
    and numbers or dates wherever the row has them. Two quotes that belong to two rows look like one value;
    text that people write on several lines does not."""
    filled = [line for line in lines if line.strip()]
    numeric = [place for place, field in enumerate(row) if _BEGINS_AS_NUMBER.match(field)]
    numeric = [place for place in numeric if not _NEWLINES.search(row[place])]
    parsed = (next(csv.reader([line], delimiter=delimiter), []) for line in filled)
    return bool(numeric and filled) and all(
        len(each) == len(row) and all(_BEGINS_AS_NUMBER.match(each[place]) for place in numeric)
        for each in parsed
    )
