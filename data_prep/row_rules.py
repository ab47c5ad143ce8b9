"""The rules of a raw event file, spelled out one row at a time.

Runs only after the fast path has rejected a chunk: it reads on from there until the first row that breaks
a rule and raises the sentence the user needs. Values are parsed by the very functions of the fast path.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.chunk import Rules
from data_prep.layout import Roles
from data_prep.places import Place
from data_prep.raw_files import open_text, unreadable
from data_prep.times import TimeForm
from data_prep.values import (
    Rejected,
    TimeRule,
    parse_feature_rows,
    parse_ids,
    parse_numbers,
    parse_times,
    with_points,
)
from tpnet_dist.errors import InputError
from tpnet_dist.events import preparation
from tpnet_dist.events.feature_rules import MISSING_SPELLINGS
from tpnet_dist.events.shards import Times
from tpnet_dist.events.text_columns import EXACT_IN_FLOAT64, formatted_nanoseconds

_ROWS_AT_ONCE = 4096
_LATEST_DATE = "2262-04-11"
_KNOWN_FORMS = (
    "%a %b %d %H:%M:%S %z %Y",  # Twitter
    "%a, %d %b %Y %H:%M:%S %z",  # mail
    "%d/%b/%Y:%H:%M:%S %z",  # web servers
    "%a %b %d %H:%M:%S %Y",  # C
)
_DATE_WITH_SLASHES = re.compile(r"\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b")


@dataclass(frozen=True, kw_only=True)
class TextForm(preparation.TextForm):
    """How one file is written."""

    lines_before_rows: int
    partitions: tuple[str | None, ...] = ()
    """Values of the columns that the file's folders name; they follow those of each row."""

    def extended(self, row: list[str]) -> list[str]:
        return [*row, *(value or "" for value in self.partitions)]


class RuleBroken(Exception):
    """A row breaks a rule."""


def raise_first_offence(
    place: Place, form: TextForm, roles: Roles, rules: Rules, *, from_row: int, before: TimeForm
) -> NoReturn:
    """Raise an `InputError` that names file, line, value, rule and remedy. `before`: the times so far."""
    rows = islice(_numbered_rows(place, form), from_row, None)
    while block := list(islice(rows, _ROWS_AT_ONCE)):
        if _pass_unseen([row for _, row in block], form, roles, rules, before):
            continue
        for line, row in block:
            try:
                times = _check_row(row, form, roles, rules)
                check_time_beside_others(row[roles.time].strip(), times, rules, before)
            except RuleBroken as broken:
                raise InputError(f"{place.name} line {line:,}: {broken}") from None
            before.observe(times)
    raise InputError(
        f"{place.name}: rejected by the parser after row {from_row:,} for no rule known here; "
        "please report it with the file"
    )


def _pass_unseen(rows: list[list[str]], form: TextForm, roles: Roles, rules: Rules, before: TimeForm) -> bool:
    """Take a quick look at many good rows: only a block that does not pass is read row by row."""
    if any(len(row) != len(roles.names) for row in rows):
        return False

    def column(position: int) -> pa.Array:
        return pa.array([row[position].strip() for row in rows], pa.string())

    try:
        for position in (roles.src, roles.dst):
            ids = parse_ids(column(position), as_text=not rules.whole_ids, missing=rules.missing)
            if rules.whole_ids and not pa.types.is_integer(ids.type):
                return False
        for position in _numeric(roles, rules):
            parse_numbers(column(position), decimal_comma=form.decimal_comma)
        if roles.feature_row is not None:
            parse_feature_rows(column(roles.feature_row), below=rules.num_feature_rows)
        times = parse_times(column(roles.time), rules.time)
    except (Rejected, UnicodeEncodeError):
        return False
    if not before.accepts(times, in_order=rules.must_be_sorted):
        return False
    before.observe(times)
    return True


def _numbered_rows(place: Place, form: TextForm) -> Iterator[tuple[int, list[str]]]:
    """Yield rows with the line each starts on, as an editor counts them; empty lines and comments are not
    rows."""
    line = 1
    try:
        with open_text(place) as text:
            for _ in range(form.lines_before_rows):
                text.readline()
            lines = ("\n" if form.comment and each.startswith(form.comment) else each for each in text)
            reader = csv.reader(lines, delimiter=form.delimiter)
            for row in reader:
                if row:
                    yield form.lines_before_rows + line, form.extended(row)
                line = reader.line_num + 1
    except (OSError, EOFError) as error:
        raise unreadable(place, error) from error
    except csv.Error as error:
        where = f"{place.name} line {form.lines_before_rows + line:,}"
        raise InputError(f"{where}: {error}; correct the quoting of this row") from error


def _check_row(row: list[str], form: TextForm, roles: Roles, rules: Rules) -> Times:
    """Check one row by itself and return its time, as an array of one."""
    if any("\udc80" <= letter <= "\udcff" for field in row for letter in field):
        raise RuleBroken("the row is not UTF-8; convert the file, for example with iconv -f latin1 -t utf-8")
    if len(row) != len(roles.names):
        of_folders = len(form.partitions)
        raise RuleBroken(
            f"{len(row) - of_folders} fields where the file has {len(roles.names) - of_folders} columns; "
            "complete or remove the row (features must be as many in every row)"
        )
    for role, position in (("source", roles.src), ("destination", roles.dst)):
        require_id(row[position], role, rules)
        if rules.whole_ids:
            ids = parse_ids(pa.array([row[position]], pa.string()), as_text=False, missing=rules.missing)
            require_kind(ids, f"{role} id {row[position].strip()!r}", rules)
    times = check_time(row[roles.time].strip(), rules.time)
    for position in _numeric(roles, rules):
        field, is_feature = row[position].strip(), position != roles.label
        if is_feature and rules.features.options.fill and field in MISSING_SPELLINGS:
            continue
        may_fill = is_feature and not rules.time.is_kept and field in MISSING_SPELLINGS
        hint = " or pass --fill 0 or --fill mean" if may_fill else ""
        if is_feature and not rules.time.is_kept and not hint:
            hint = f", or for categories pass --one-hot {roles.names[position]}"
        check_number(field, f"column {roles.names[position]!r}", form.decimal_comma, hint)
    if roles.feature_row is not None:
        _check_feature_row(row[roles.feature_row], rules.num_feature_rows)
    return times


def require_id(value: object, role: str, rules: Rules) -> None:
    """Refuse a missing id, and words for one unless they are known to be ids."""
    written = value.strip() if isinstance(value, str) else value
    if written in (None, "") or (written in MISSING_SPELLINGS and rules.whole_ids):
        raise RuleBroken(f"{role} id {value!r} is null; fill it in or remove the row")
    if written in rules.missing:
        raise RuleBroken(
            f"{role} id {value!r} may stand for a missing one; fill it in or remove the row, or --yes to "
            "take it as an id"
        )


def require_kind(ids: pa.Array, what: str, rules: Rules) -> None:
    """Refuse ids that are text where all ids of the log are whole numbers."""
    if rules.whole_ids and not pa.types.is_integer(ids.type):
        raise RuleBroken(
            f"{what} is text, but all ids of this log are whole numbers; correct it, or convert everything "
            "anew"
        )


def _numeric(roles: Roles, rules: Rules) -> list[int]:
    """Return the columns of numbers; those of categories hold anything."""
    return [each for each in roles.numeric if roles.names[each] not in rules.features.options.one_hot]


def check_time(field: str, rule: TimeRule) -> Times:
    """Return the time of one row, written as text; `RuleBroken` says what is wrong with it."""
    try:
        return parse_times(pa.array([field]), rule)
    except Rejected:
        pass
    value = None if rule.is_dates else _as_float(field, rule.decimal_comma)
    if rule.is_kept and value is None:
        form = rule.format or {"iso": "ISO 8601"}.get(rule.unit, f"numbers of {rule.unit}")
        raise RuleBroken(f"time {field!r} is not written as the log's times were ({form}); correct it")
    if rule.is_dates:
        raise _wrong_date(field, rule)
    if value is None and _DATE_WITH_SLASHES.match(field):
        raise RuleBroken(f"time {field!r} is a date, {_SAY_FORMAT}")
    if value is None and (known := _known_form(field)):
        raise RuleBroken(f"time {field!r} is a date; pass --time-format '{known}'")
    if value is None:
        hint = " or, for a decimal comma, --decimal-comma" if re.fullmatch(r"\d+,\d+", field) else ""
        raise RuleBroken(
            f"time {field!r} is not a number; for dates pass --time-unit iso, for column names "
            f"--header yes{hint}"
        )
    if not np.isfinite(value):
        raise RuleBroken(f"time {field!r} is not finite; correct it or remove the row")
    if value < 0:
        raise RuleBroken(f"time {field} is negative; times are counted from 0 or later, shift or remove it")
    raise RuleBroken(
        f"time {field} cannot be kept exactly (integers up to 2^63, others up to 2^53); "
        "write it as a plain integer, or give a coarser unit"
    )


_SAY_FORMAT = (
    "but 1/2 may be the first of February or the second of January; say how it is written, for example "
    "--time-format '%d/%m/%Y %H:%M'"
)


def _known_form(field: str) -> str | None:
    """Return the form that programs are known to write this date in; None if it has none of these."""
    date = pa.array([field])
    return next((form for form in _KNOWN_FORMS if formatted_nanoseconds(date, form) is not None), None)


def _wrong_date(field: str, rule: TimeRule) -> RuleBroken:
    if rule.format is not None:
        return RuleBroken(
            f"time {field!r} is not written as --time-format {rule.format!r} says, or lies outside of 1970 "
            "to "
            f"{_LATEST_DATE}; correct one of the two"
        )
    if re.match(r"-?\d{4,}-\d\d", field) and (field.startswith("-") or field[:4] < "1970"):
        return RuleBroken(f"time {field} is before 1970; shift or remove it")
    if re.match(r"\d{4}-\d\d-\d\d", field) and field[:4] >= "2262":
        return RuleBroken(
            f"time {field} is after {_LATEST_DATE} (times of dates are counted in nanoseconds), or is no "
            "date; "
            "correct it or remove the row"
        )
    if _DATE_WITH_SLASHES.match(field):
        return RuleBroken(f"time {field!r} is not ISO-8601, {_SAY_FORMAT}")
    if form := _known_form(field):
        return RuleBroken(f"time {field!r} is not ISO-8601; pass --time-format '{form}'")
    return RuleBroken(
        f"time {field!r} is not ISO-8601 (2024-01-31 or 2024-01-31T12:00:00.5Z, at most nanoseconds); "
        "correct it, or give another --time-unit or a --time-format"
    )


def check_time_beside_others(field: str, times: Times, rules: Rules, before: TimeForm) -> None:
    end, time = before.log_end, times[0].item()
    if end is not None and time < end:
        raise RuleBroken(
            f"time {field} is before {_as_written(end, rules.time)}, the last event of the log; leave out "
            "what "
            "is there already, or convert everything anew with --sort"
        )
    if not before.keeps(times):
        raise RuleBroken(
            f"time {field} is finer than the log's times, which are whole {before.kept_unit}; round it, or "
            "convert everything anew"
        )
    if not before.accepts(times, in_order=False):
        raise RuleBroken(
            f"time {field} and those before it cannot all be kept exactly: beside fractions integers go up "
            f"to {EXACT_IN_FLOAT64}; write all times as integers of a finer --time-unit"
        )
    if rules.must_be_sorted and not before.accepts(times, in_order=True):
        raise RuleBroken(
            f"time {field} is before {_as_written(before.last_time, rules.time)} of the event before it; "
            "sort the file or pass --sort"
        )


def check_number(field: str, what: str, decimal_comma: bool = False, hint: str = "") -> None:
    value = _as_float(field, decimal_comma)
    if value is None:
        raise RuleBroken(f"{what} {field!r} is not a number; correct it or remove the row{hint}")
    with np.errstate(over="ignore"):
        if not np.isfinite(np.float32(value)):
            raise RuleBroken(f"{what} {field!r} is not finite in float32; correct it or remove the row")


def _as_float(field: str, decimal_comma: bool) -> float | None:
    try:
        return float(pc.cast(with_points(pa.array([field]), decimal_comma), pa.float64())[0].as_py())
    except pa.ArrowInvalid:
        return None


def _check_feature_row(field: str, num_rows: int | None) -> None:
    if not field.isdigit() or int(field) == 0:
        raise RuleBroken(f"feature row {field!r} is not a row number from 1 on; correct it or remove the row")
    if num_rows is not None and int(field) >= num_rows:
        raise RuleBroken(
            f"feature row {field} is beyond the feature file's {num_rows:,} rows; use the file that fits"
        )


def _as_written(time: int | float | None, rule: TimeRule) -> str:
    """Return a time as people write it: dates by ISO 8601, without a fraction that is zero."""
    if not rule.is_dates or time is None:
        return str(time)
    whole, _, fraction = str(np.datetime64(int(time), "ns")).partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole
