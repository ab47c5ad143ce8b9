"""What a raw file looks like: what the user or a preset says, and what its first lines show."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from data_prep.raw_files import first_lines
from tpnet_dist.errors import InputError

ALIASES = {
    "src": ("src", "source", "u", "from", "user_id", "user", "sender"),
    "dst": ("dst", "destination", "target", "i", "v", "to", "item_id", "item", "recipient"),
    "time": ("time", "timestamp", "ts", "t", "unixtime", "date", "datetime", "day"),
    "label": ("label", "state_label"),
}
_DELIMITERS = ",\t;| "
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
    src: int
    dst: int
    time: int
    label: int | None
    features: tuple[int, ...]
    feature_row: int | None

    @property
    def used(self) -> list[int]:
        """Positions to parse, in a fixed order, each once."""
        wanted = [self.src, self.dst, self.time, self.label, self.feature_row, *self.features]
        return list(dict.fromkeys(position for position in wanted if position is not None))


def inspect(path: Path, layout: Layout) -> Table:
    """Look at the first lines and decide how to parse the whole file."""
    lines = first_lines(path, 100)
    preamble = _preamble_length(lines, layout.comment)
    lines = lines[preamble:]
    if not any(line.strip() for line in lines):
        raise InputError(f"{path}: the file is empty; give a file with at least one event")
    delimiter = layout.delimiter or _guess_delimiter(lines)
    rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
    has_header = _looks_like_header(rows[0]) if layout.header is None else layout.header
    if has_header and len(rows) == 1:
        raise InputError(f"{path}: only a header line, no events; give a file with at least one event")
    named = has_header and layout.names_its_columns
    width = len(rows[0]) if named else len(rows[1 if has_header else 0])
    names = [name.strip() for name in rows[0]] if named else [str(position) for position in range(width)]
    leading_blank = next(number for number, line in enumerate(lines) if line.strip())
    find = _ColumnFinder(path, names, named)
    return Table(
        path=path,
        delimiter=delimiter,
        lines_before_rows=preamble + leading_blank + has_header,
        names=tuple(names),
        src=find.required("src", layout.src, default=0),
        dst=find.required("dst", layout.dst, default=1),
        time=find.required("time", layout.time, default=2),
        label=find.optional("label", layout.label),
        features=find.features(layout.features),
        feature_row=find.position(layout.feature_row, "feature row") if layout.feature_row else None,
    )


class _ColumnFinder:
    """Turn what the user calls a column — a name, a position, nothing — into a position."""

    def __init__(self, path: Path, names: list[str], named: bool) -> None:
        self.path, self.names, self.named = path, names, named

    def required(self, role: str, wish: str | None, default: int) -> int:
        if wish is not None:
            return self.position(wish, role)
        if (found := self._by_alias(role)) is not None:
            return found
        if not self.named:
            return self.position(str(default), role)
        raise InputError(
            f"{self.path}: no {role} column among {self.names} (looked for {', '.join(ALIASES[role])}); "
            f"name it with --{role}"
        )

    def optional(self, role: str, wish: str | None) -> int | None:
        return self._by_alias(role) if wish is None else self.position(wish, role)

    def position(self, wish: str, role: str) -> int:
        if wish in self.names:
            return self.names.index(wish)
        if wish.isdigit() and int(wish) < len(self.names):
            return int(wish)
        kind = "columns" if self.named else "columns (no header, so by position from 0)"
        raise InputError(
            f"{self.path}: no column {wish!r} for {role}; the file has {len(self.names)} {kind}: "
            f"{', '.join(self.names[:12])}{', …' if len(self.names) > 12 else ''}; correct --{role}"
        )

    def features(self, wishes: tuple[str, ...]) -> tuple[int, ...]:
        positions: list[int] = []
        for wish in wishes:
            if wish.endswith(":") and wish[:-1].isdigit():
                positions += range(int(wish[:-1]), len(self.names))
            else:
                positions.append(self.position(wish, "features"))
        return tuple(positions)

    def _by_alias(self, role: str) -> int | None:
        if not self.named:
            return None
        lowered = [name.lower() for name in self.names]
        return next((lowered.index(alias) for alias in ALIASES[role] if alias in lowered), None)


def _preamble_length(lines: list[str], comment: str | None) -> int:
    if comment is None:
        return 0
    return next((n for n, line in enumerate(lines) if not line.startswith(comment)), len(lines))


def _guess_delimiter(lines: list[str]) -> str:
    """The candidate that splits the first lines most evenly; the earlier of two equals."""
    sample = [line for line in lines if line.strip()][:20]
    counts = {mark: [line.count(mark) for line in sample] for mark in _DELIMITERS}
    even = [mark for mark, found in counts.items() if min(found) > 0 and len(set(found[1:])) <= 1]
    present = [mark for mark, found in counts.items() if max(found) > 0]
    return (even or present or [","])[0]


def _looks_like_header(row: list[str]) -> bool:
    return not any(_is_number(field) or _ISO_DATE.match(field.strip()) for field in row)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
