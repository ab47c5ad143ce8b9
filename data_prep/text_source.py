"""Delimited text: what its first lines show, and the fast path through it by Arrow's CSV reader."""

import csv
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.csv

from data_prep.chunk import Chunk, ChunkRejected, Rules
from data_prep.columns import ALIASES
from data_prep.layout import Layout, find_roles
from data_prep.places import Place
from data_prep.raw_files import RawFile, first_lines, is_comment, open_text, unreadable
from data_prep.row_rules import TextForm, raise_first_offence
from data_prep.times import TimeForm
from data_prep.values import NoEvents, Rejected, parse_feature_rows, parse_numbers, parse_times
from tpnet_dist.errors import InputError
from tpnet_dist.events.feature_rules import MISSING_SPELLINGS
from tpnet_dist.events.preparation import SourceRecord, TimeUnit
from tpnet_dist.files.csv_quotes import EventLines, find_open_quote

_BLOCK_BYTES = 16 << 20
_SAMPLE_ROWS = 2000
_DELIMITERS = ",\t;| "
_SEVERAL_BLANKS = re.compile(r"[ \t]{2,}")
_DATE_OR_NUMBER = re.compile(r"\s*\d+[-/.:,]\d")
_COMMENT_MARKS = ("#", "%", "//")


class TextSource:
    """One file of delimited text."""

    time_unit: TimeUnit | None = None
    id_kinds: str | None = None

    def __init__(self, place: Place, layout: Layout) -> None:
        self.place, self.name, self.num_bytes = place, place.name, place.num_bytes
        lines = first_lines(place, comment=layout.comment)
        before = _lines_to_skip(lines, layout.comment)
        lines = [line for line in lines[before:] if not is_comment(line, layout.comment)]
        if not lines:
            raise NoEvents(f"{self.name}: the file is empty; give a file with at least one event")
        delimiter = layout.delimiter or guess_delimiter(self.name, lines, layout)
        rows = _first_rows(self.name, lines, delimiter)
        if layout.header is None:
            _refuse_comment(self.name, lines[0], rows)
        has_header = _looks_like_header(rows[0]) if layout.header is None else layout.header
        has_names = has_header and layout.names_its_columns
        if has_header and len(rows) == 1:
            self._require_closed(find_open_quote(lines, delimiter), before)
            if layout.is_kept and has_names:  # its only line may be an event
                find_roles(self.name, [name.strip() for name in rows[0]], layout, has_names=True)
            raise NoEvents(f"{self.name}: only a header line, no events; give a file with at least one event")
        if has_header and next(csv.reader([lines[0]], delimiter=delimiter)) != rows[0]:
            raise InputError(
                f"{self.name} line {before + 1:,}: a quote is opened among the names of the columns and not "
                "closed in this line; close it, or remove it"
            )
        names = [name.strip() for name in rows[0]] if has_names else _positions(rows[has_header])
        self._num_fields = len(names)
        partitions = {key: each for key, each in place.partitions().items() if key not in names}
        names += partitions
        self.form = TextForm(
            delimiter=delimiter,
            has_header=has_header,
            comment=layout.comment,
            decimal_comma=layout.decimal_comma,
            lines_before_rows=before + has_header,
            partitions=tuple(partitions.values()),
        )
        self.roles = find_roles(self.name, names, layout, has_names=has_names)
        rows = [row for row in rows[has_header:] if len(row) == self._num_fields]
        self._rows = [self.form.extended(row) for row in rows]

    def sample(self) -> list[pa.Array]:
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(self.roles.names)
        return [pa.array([field.strip() for field in column], pa.string()) for column in columns]

    @property
    def feature_names(self) -> list[str]:
        return self.roles.feature_names

    def about(self) -> str:
        mark = {"\t": "tabs", " ": "blanks"}.get(self.form.delimiter, repr(self.form.delimiter))
        header = "a header" if self.form.has_header else "no header"
        return f"text separated by {mark}, {header}"

    def record(self) -> SourceRecord | None:
        return self.place.record()

    def chunks(self, rules: Rules) -> Iterator[Chunk]:
        first_row = 0
        raw = RawFile(self.place)  # not closed here: Arrow may still be reading ahead when we stop
        lines = EventLines(raw.stream, self.form.lines_before_rows, self.form.comment)
        try:
            for batch in self._open(lines, rules):
                if batch.num_rows:
                    yield self._parse(batch, rules, first_row, raw.bytes_read)
                first_row += batch.num_rows
        except (pa.ArrowInvalid, Rejected) as error:
            if "straddling" in str(error):
                self._require_closed_quotes()
                raise InputError(
                    f"{self.name}: a row after row {first_row:,} takes more than {_BLOCK_BYTES >> 20} MiB; "
                    "shorten its text"
                ) from None
            raise ChunkRejected(first_row) from None
        except (OSError, EOFError) as error:
            raise unreadable(self.place, error) from error
        count = lines.count
        if count.num_quotes and (count.num_quotes % 2 or count.num_lines() != first_row):
            self._require_closed_quotes()
        if not first_row:
            raise NoEvents(f"{self.name}: holds no events; give a file with at least one")

    def explain(self, rules: Rules, from_row: int, before: TimeForm) -> NoReturn:
        raise_first_offence(self.place, self.form, self.roles, rules, from_row=from_row, before=before)

    def _open(self, lines: EventLines, rules: Rules) -> Any:  # noqa: ANN401 — Arrow has no types
        roles, options = self.roles, rules.features.options
        numeric = [each for each in roles.numeric if roles.names[each] not in options.one_hot]
        numeric = [] if self.form.decimal_comma else numeric
        types = {
            str(position): pa.float32() if position in numeric else pa.string()
            for position in roles.used
            if position < self._num_fields
        }
        try:
            return pyarrow.csv.open_csv(
                pa.PythonFile(lines, "r"),
                pyarrow.csv.ReadOptions(
                    block_size=_BLOCK_BYTES, column_names=[str(i) for i in range(self._num_fields)]
                ),
                pyarrow.csv.ParseOptions(delimiter=self.form.delimiter, newlines_in_values=True),
                pyarrow.csv.ConvertOptions(
                    include_columns=list(types),
                    column_types=types,
                    null_values=MISSING_SPELLINGS if options.fill else [],
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV file" not in str(error):
                raise
            raise NoEvents(f"{self.name}: holds no events; give a file with at least one") from error

    def _parse(self, batch: pa.RecordBatch, rules: Rules, first_row: int, bytes_read: int) -> Chunk:
        roles = self.roles

        def column(position: int) -> pa.Array:
            if position < self._num_fields:
                return batch.column(str(position))
            value = self.form.partitions[position - self._num_fields]
            return pa.repeat(pa.scalar(value or "", pa.string()), batch.num_rows)

        def numbers(position: int) -> Any:  # noqa: ANN401
            name, comma = roles.names[position], self.form.decimal_comma
            return rules.features.column(column(position), name, decimal_comma=comma)

        return Chunk(
            first_row=first_row,
            bytes_read=bytes_read,
            src=column(roles.src),
            dst=column(roles.dst),
            time=parse_times(column(roles.time), rules.time),
            label=None if roles.label is None else self._label(column(roles.label)),
            features=np.column_stack([numbers(each) for each in roles.features]) if roles.features else None,
            feature_row=None
            if roles.feature_row is None
            else parse_feature_rows(column(roles.feature_row), below=None),
        )

    def _label(self, column: pa.Array) -> Any:  # noqa: ANN401
        return parse_numbers(column, decimal_comma=self.form.decimal_comma)

    def _require_closed_quotes(self) -> None:
        """Every line is a row or a part of a value that was meant to have several."""
        form = self.form
        with open_text(self.place) as text:
            for _ in range(form.lines_before_rows):
                text.readline()
            lines = ("\n" if is_comment(line, form.comment) else line for line in text)
            self._require_closed(find_open_quote(lines, form.delimiter), form.lines_before_rows)

    def _require_closed(self, found: tuple[int, str] | None, lines_before: int) -> None:
        if found is not None:
            line, what = found
            raise InputError(
                f"{self.name} line {lines_before + line + 1:,}: {what}; correct the quoting of this row"
            )


def _positions(row: list[str]) -> list[str]:
    return [str(position) for position in range(len(row))]


def _first_rows(name: str, lines: list[str], delimiter: str) -> list[list[str]]:
    """What names the columns, if anything, and the first that have them."""
    rows: list[list[str]] = []
    try:
        reader = csv.reader(lines, delimiter=delimiter)
        rows.extend(islice((row for row in reader if row), _SAMPLE_ROWS))
    except csv.Error as error:
        if len(rows) < 2:
            raise InputError(
                f"{name}: the first rows cannot be parsed ({error}); correct their quoting"
            ) from error
    return rows


def _lines_to_skip(lines: list[str], comment: str | None) -> int:
    """Comments and blank lines at the file's head."""
    for number, line in enumerate(lines):
        if line.strip() and not is_comment(line, comment):
            return number
    return len(lines)


def guess_delimiter(name: str, lines: list[str], layout: Layout) -> str:
    """The candidate that splits the first lines most evenly; the earlier of two equals."""
    sample = [line for line in lines if line.strip()][:20]
    others = _DELIMITERS.replace(",", "")
    # decimal commas may be quoted, so that commas separate as well
    has_others = any(mark in line for mark in others for line in sample)
    candidates = others if layout.decimal_comma and has_others else _DELIMITERS
    counts = {mark: [line.count(mark) for line in sample] for mark in candidates}
    even = [mark for mark, found in counts.items() if min(found) > 0 and len(set(found[1:])) <= 1]
    present = [mark for mark, found in counts.items() if max(found) > 0]
    delimiter = (even or present or [candidates[0]])[0]
    if delimiter in " \t" and any(_SEVERAL_BLANKS.search(line) for line in sample):
        raise InputError(
            f"{name}: columns are separated by several blanks, but by one is the rule; "
            r"squeeze them, for example with: tr -s ' \t' ' '"
        )
    return delimiter


def _looks_like_header(row: list[str]) -> bool:
    """Names that mean something here, or at least nothing that looks like data."""
    known = {alias for aliases in ALIASES.values() for alias in aliases}
    if sum(field.strip().lower() in known for field in row) >= 2:
        return True
    return not any(_is_number(field) or _DATE_OR_NUMBER.match(field) for field in row)


def _refuse_comment(name: str, line: str, rows: list[list[str]]) -> None:
    """Refuse a first line that looks like a comment, and is neither names of columns nor an event."""
    mark = next((mark for mark in _COMMENT_MARKS if line.startswith(mark)), None)
    is_event = len(rows) > 1 and len(rows[0]) == len(rows[1]) and not _looks_like_header(rows[0])
    if mark is not None and not is_event:
        raise InputError(
            f"{name}: the first line, {line[:40]!r}, looks like a comment; pass --comment '{mark}' to skip "
            "such lines, or --header yes if it names the columns, or --header no if it is an event"
        )


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
