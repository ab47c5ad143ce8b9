"""The rules of a raw event file, spelled out one row at a time.

Runs only after the fast path has rejected a chunk: it reads on from there until the first row that breaks
a rule and raises the sentence the user needs. Values are parsed by the very functions of the fast path.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.layout import Table
from data_prep.raw_files import open_text, unreadable
from data_prep.times import TimeForm
from data_prep.values import (
    NULL_SPELLINGS,
    Rejected,
    TimeUnit,
    parse_feature_rows,
    parse_ids,
    parse_numbers,
    parse_times,
)
from tpnet_dist.errors import InputError
from tpnet_dist.events.shards import Times
from tpnet_dist.events.text_columns import EXACT_IN_FLOAT64

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a row must keep to besides its own form."""

    unit: TimeUnit
    must_be_sorted: bool
    num_feature_rows: int | None


class _Broken(Exception):
    """A row breaks a rule."""


def raise_first_offence(table: Table, rules: Rules, *, from_row: int, before: TimeForm) -> NoReturn:
    """Raise an `InputError` that names file, line, value, rule and remedy. `before`: the times so far."""
    rows = islice(_numbered_rows(table), from_row, None)
    while block := list(islice(rows, _ROWS_AT_ONCE)):
        if _pass_unseen([row for _, row in block], table, rules, before):
            continue
        for line, row in block:
            try:
                times = _check_row(row, table, rules)
                _check_time_beside_others(row[table.time].strip(), times, rules, before)
            except _Broken as broken:
                raise InputError(f"{table.path} line {line:,}: {broken}") from None
            before.observe(times)
    raise InputError(
        f"{table.path}: rejected by the parser after row {from_row:,} for no rule known here; "
        "please report it with the file"
    )


def _pass_unseen(rows: list[list[str]], table: Table, rules: Rules, before: TimeForm) -> bool:
    """A quick look at many good rows: only a block that does not pass is read row by row."""
    if any(len(row) != len(table.names) for row in rows):
        return False

    def column(position: int) -> pa.Array:
        return pa.array([row[position].strip() for row in rows], pa.string())

    try:
        for position in (table.src, table.dst):
            parse_ids(column(position), as_text=True)
        for position in _number_columns(table):
            parse_numbers(column(position))
        if table.feature_row is not None:
            parse_feature_rows(column(table.feature_row), below=rules.num_feature_rows)
        times = parse_times(column(table.time), rules.unit)
    except (Rejected, UnicodeEncodeError):
        return False
    if not before.accepts(times, in_order=rules.must_be_sorted):
        return False
    before.observe(times)
    return True


def _number_columns(table: Table) -> list[int]:
    return [*table.features, *([] if table.label is None else [table.label])]


def _numbered_rows(table: Table) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line each starts on, as an editor counts them; empty lines are not rows."""
    line = 1
    try:
        with open_text(table.path) as text:
            for _ in range(table.lines_before_rows):
                text.readline()
            reader = csv.reader(text, delimiter=table.delimiter)
            for row in reader:
                if row:
                    yield table.lines_before_rows + line, row
                line = reader.line_num + 1
    except OSError as error:
        raise unreadable(table.path, error) from error
    except csv.Error as error:
        where = f"{table.path} line {table.lines_before_rows + line:,}"
        raise InputError(f"{where}: {error}; correct the quoting of this row") from error


def _check_row(row: list[str], table: Table, rules: Rules) -> Times:
    """Check one row by itself and return its time, as an array of one."""
    if any("\udc80" <= letter <= "\udcff" for field in row for letter in field):
        raise _Broken("the row is not UTF-8; convert the file, for example with iconv -f latin1 -t utf-8")
    if len(row) != len(table.names):
        raise _Broken(
            f"{len(row)} fields where the file has {len(table.names)} columns; "
            "complete or remove the row (features must be as many in every row)"
        )
    for role, position in (("source", table.src), ("destination", table.dst)):
        if row[position].strip() in NULL_SPELLINGS:
            raise _Broken(f"{role} id {row[position]!r} is null; fill it in or remove the row")
    times = _time(row[table.time].strip(), rules.unit)
    for position in _number_columns(table):
        _check_number(row[position].strip(), f"column {table.names[position]!r}")
    if table.feature_row is not None:
        _check_feature_row(row[table.feature_row], rules.num_feature_rows)
    return times


def _time(field: str, unit: TimeUnit) -> Times:
    try:
        return parse_times(pa.array([field]), unit)
    except Rejected:
        pass
    if unit == "iso":
        if field.startswith("-") or field[:4] < "1970":
            raise _Broken(f"time {field} is before 1970; shift or remove it")
        raise _Broken(
            f"time {field!r} is not ISO-8601 (2024-01-31 or 2024-01-31T12:00:00.5Z, at most microseconds); "
            "correct it or give another --time-unit"
        )
    value = _as_float(field)
    if value is None:
        raise _Broken(
            f"time {field!r} is not a number; for dates pass --time-unit iso, for column names --header yes"
        )
    if not np.isfinite(value):
        raise _Broken(f"time {field!r} is not finite; correct it or remove the row")
    if value < 0:
        raise _Broken(f"time {field} is negative; times are counted from 0 or later, shift or remove it")
    raise _Broken(
        f"time {field} cannot be kept exactly (integers up to 2^63, others up to 2^53); "
        "write it as a plain integer, or give a coarser unit"
    )


def _check_time_beside_others(field: str, times: Times, rules: Rules, before: TimeForm) -> None:
    if not before.accepts(times, in_order=False):
        raise _Broken(
            f"time {field} and those before it cannot all be kept exactly: beside fractions integers go up "
            f"to {EXACT_IN_FLOAT64}; write all times as integers of a finer --time-unit"
        )
    if rules.must_be_sorted and not before.accepts(times, in_order=True):
        raise _Broken(
            f"time {field} is before {_as_written(before.last_time, rules.unit)} of the event before it; "
            "sort the file or pass --sort"
        )


def _check_number(field: str, what: str) -> None:
    value = _as_float(field)
    if value is None:
        raise _Broken(f"{what} {field!r} is not a number; correct it or remove the row")
    with np.errstate(over="ignore"):
        if not np.isfinite(np.float32(value)):
            raise _Broken(f"{what} {field!r} is not finite in float32; correct it or remove the row")


def _as_float(field: str) -> float | None:
    try:
        return float(pc.cast(pa.array([field]), pa.float64())[0].as_py())
    except pa.ArrowInvalid:
        return None


def _check_feature_row(field: str, num_rows: int | None) -> None:
    if not field.isdigit() or int(field) == 0:
        raise _Broken(f"feature row {field!r} is not a row number from 1 on; correct it or remove the row")
    if num_rows is not None and int(field) >= num_rows:
        raise _Broken(
            f"feature row {field} is beyond the feature file's {num_rows:,} rows; use the file that fits"
        )


def _as_written(time: int | float | None, unit: TimeUnit) -> str:
    if unit != "iso" or time is None:
        return str(time)
    return (datetime(1970, 1, 1) + timedelta(microseconds=int(time))).isoformat()
