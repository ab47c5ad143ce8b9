"""What a raw file looks like: what the user or a preset says, and what its first lines show."""

import csv
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from data_prep.columns import ALIASES, ColumnFinder
from data_prep.raw_files import first_lines
from tpnet_dist.errors import InputError

_DELIMITERS = ",\t;| "
_SEVERAL_BLANKS = re.compile(r"[ \t]{2,}")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What is known of a file before looking at it; `None` means: find out."""

    src: str | None = None
    dst: str | None = None
    time: str | None = None
    label: str | None = None
    features: tuple[str, ...] = ()
    """Names, positions, or one open range such as `4:` for all columns from position 4 on."""
    feature_row: str | None = None
    """Column that tells which row of a separate feature file belongs to the event."""
    delimiter: str | None = None
    header: bool | None = None
    names_its_columns: bool = True
    """False if the header line does not fit the columns (JODIE: one name for 172 features)."""
    comment: str | None = None
    """Leading lines that start with this are skipped."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """How to parse one file: its dialect and which position holds what."""

    path: Path
    delimiter: str
    lines_before_rows: int
    names: tuple[str, ...]
    """One name per column; positions as text where the file names none."""
    has_names: bool
    src: int
    dst: int
    time: int
    label: int | None
    features: tuple[int, ...]
    feature_row: int | None

    @property
    def used(self) -> list[int]:
        """Positions to parse, in a fixed order."""
        wanted = [self.src, self.dst, self.time, self.label, self.feature_row, *self.features]
        return [position for position in wanted if position is not None]

    @property
    def feature_names(self) -> list[str]:
        return [self.names[position] for position in self.features]


def inspect(path: Path, layout: Layout) -> Table:
    """Look at the first lines and decide how to parse the whole file."""
    lines = first_lines(path, comment=layout.comment)
    before = _lines_to_skip(lines, layout.comment)
    lines = lines[before:]
    if not lines:
        raise InputError(f"{path}: the file is empty; give a file with at least one event")
    delimiter = layout.delimiter or _guess_delimiter(path, lines)
    rows = _first_rows(path, lines, delimiter)
    has_header = _looks_like_header(rows[0]) if layout.header is None else layout.header
    if has_header and len(rows) == 1:
        raise InputError(f"{path}: only a header line, no events; give a file with at least one event")
    has_names = has_header and layout.names_its_columns
    names = [name.strip() for name in rows[0]] if has_names else _positions(rows[has_header])
    find = ColumnFinder(path, names, has_names)
    table = Table(
        path=path,
        delimiter=delimiter,
        lines_before_rows=before + has_header,
        names=tuple(names),
        has_names=has_names,
        src=find.required("src", layout.src, default=0),
        dst=find.required("dst", layout.dst, default=1),
        time=find.required("time", layout.time, default=2),
        label=None if layout.label is None else find.position(layout.label, "--label"),
        features=find.features(layout.features),
        feature_row=None if layout.feature_row is None else find.position(layout.feature_row, "--format"),
    )
    _refuse_two_roles(table)
    return table


def _positions(row: list[str]) -> list[str]:
    return [str(position) for position in range(len(row))]


def _first_rows(path: Path, lines: list[str], delimiter: str) -> list[list[str]]:
    """The first two rows: what names the columns, if anything, and what has them."""
    try:
        reader = csv.reader(lines, delimiter=delimiter)
        return list(islice((row for row in reader if row), 2))
    except csv.Error as error:
        raise InputError(
            f"{path}: the first rows cannot be parsed ({error}); correct their quoting"
        ) from error


def _refuse_two_roles(table: Table) -> None:
    roles = [("src", table.src), ("dst", table.dst), ("time", table.time), ("label", table.label)]
    taken: dict[int, str] = {}
    for role, position in [*roles, *(("features", position) for position in table.features)]:
        if position is None:
            continue
        if position in taken:
            name = table.names[position]
            raise InputError(
                f"{table.path}: column {name!r} is given for {taken[position]} and for {role}; "
                "give each column one role"
            )
        taken[position] = role


def _lines_to_skip(lines: list[str], comment: str | None) -> int:
    """Comments and blank lines at the file's head."""
    for number, line in enumerate(lines):
        if line.strip() and not (comment and line.startswith(comment)):
            return number
    return len(lines)


def _guess_delimiter(path: Path, lines: list[str]) -> str:
    """The candidate that splits the first lines most evenly; the earlier of two equals."""
    sample = [line for line in lines if line.strip()][:20]
    counts = {mark: [line.count(mark) for line in sample] for mark in _DELIMITERS}
    even = [mark for mark, found in counts.items() if min(found) > 0 and len(set(found[1:])) <= 1]
    present = [mark for mark, found in counts.items() if max(found) > 0]
    delimiter = (even or present or [","])[0]
    if delimiter in " \t" and any(_SEVERAL_BLANKS.search(line) for line in sample):
        raise InputError(
            f"{path}: columns are separated by several blanks, but by one is the rule; "
            r"squeeze them, for example with: tr -s ' \t' ' '"
        )
    return delimiter


def _looks_like_header(row: list[str]) -> bool:
    """Names that mean something here, or at least nothing that looks like data."""
    known = {alias for aliases in ALIASES.values() for alias in aliases}
    if sum(field.strip().lower() in known for field in row) >= 2:
        return True
    return not any(_is_number(field) or _ISO_DATE.match(field.strip()) for field in row)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
