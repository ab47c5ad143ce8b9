"""The rules of a raw event file, spelled out one row at a time.

Runs only after the fast path has rejected a chunk: it reads on from there until the first row that breaks
a rule and raises the sentence the user needs.
"""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NoReturn

import pyarrow as pa

from data_prep.layout import Table
from data_prep.raw_files import open_text, unreadable
from data_prep.values import NULL_SPELLINGS, Rejected, TimeUnit, iso_microseconds
from tpnet_dist.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a row must keep to besides its own form."""

    unit: TimeUnit
    must_be_sorted: bool
    num_feature_rows: int | None


class _Broken(Exception):
    """A row breaks a rule."""


def raise_first_offence(
    table: Table, rules: Rules, *, from_row: int, time_before: int | float | None
) -> NoReturn:
    """Raise an `InputError` that names file, line, value, rule and remedy."""
    for number, (line, row) in enumerate(_numbered_rows(table)):
        if number < from_row:
            continue
        try:
            time = _check_row(row, table, rules)
            if rules.must_be_sorted and time_before is not None and time < time_before:
                shown = row[table.time].strip()
                raise _Broken(
                    f"time {shown} is before {_as_written(time_before, rules.unit)} of the event before it; "
                    "sort the file or pass --sort"
                )
        except _Broken as broken:
            raise InputError(f"{table.path} line {line:,}: {broken}") from None
        time_before = time
    raise InputError(
        f"{table.path}: rejected by the parser after row {from_row:,} for no rule known here; "
        "please report it with the file"
    )


def _numbered_rows(table: Table) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line each starts on, as an editor counts them; empty lines are not rows."""
    try:
        with open_text(table.path) as text:
            for _ in range(table.lines_before_rows):
                text.readline()
            reader, line = csv.reader(text, delimiter=table.delimiter), 1
            for row in reader:
                if row:
                    yield table.lines_before_rows + line, row
                line = reader.line_num + 1
    except (OSError, csv.Error) as error:
        raise unreadable(table.path, error) from error


def _check_row(row: list[str], table: Table, rules: Rules) -> int | float:
    """Check one row by itself and return its time."""
    if len(row) != len(table.names):
        raise _Broken(
            f"{len(row)} fields where the file has {len(table.names)} columns; "
            "complete or remove the row (features must be as many in every row)"
        )
    for role, position in (("source", table.src), ("destination", table.dst)):
        if row[position].strip() in NULL_SPELLINGS:
            raise _Broken(f"{role} id {row[position]!r} is null; fill it in or remove the row")
    time = _time(row[table.time].strip(), rules.unit)
    for position in (*table.features, *([] if table.label is None else [table.label])):
        _number(row[position].strip(), f"column {table.names[position]!r}")
    if table.feature_row is not None:
        _feature_row(row[table.feature_row], rules.num_feature_rows)
    return time


def _time(field: str, unit: TimeUnit) -> int | float:
    time = _iso_time(field) if unit == "iso" else _number(field, "time")
    if time < 0:
        raise _Broken(f"time {field} is negative; times are counted from 0 or later, shift or remove it")
    return time


def _iso_time(field: str) -> int:
    try:
        return int(iso_microseconds(pa.array([field]))[0])
    except Rejected:
        raise _Broken(
            f"time {field!r} is not ISO-8601 (2024-01-31 or 2024-01-31T12:00:00.5Z, at most microseconds); "
            "correct it or give another --time-unit"
        ) from None


def _number(field: str, what: str) -> int | float:
    """Integers stay integers: float64 cannot tell nanosecond times apart."""
    try:
        value = int(field) if field.lstrip("-").isdigit() else float(field)
    except ValueError:
        hint = "; for dates pass --time-unit iso" if what == "time" else "; correct it or remove the row"
        raise _Broken(f"{what} {field!r} is not a number{hint}") from None
    if not math.isfinite(value):
        raise _Broken(f"{what} {field!r} is not finite; correct it or remove the row")
    return value


def _feature_row(field: str, num_rows: int | None) -> None:
    if not field.isdigit():
        raise _Broken(f"feature row {field!r} is not a row number; correct it or remove the row")
    if num_rows is not None and int(field) >= num_rows:
        raise _Broken(
            f"feature row {field} is beyond the feature file's {num_rows:,} rows; use the file that fits"
        )


def _as_written(time: int | float, unit: TimeUnit) -> str:
    if unit != "iso":
        return str(time)
    return (datetime(1970, 1, 1) + timedelta(microseconds=int(time))).isoformat()
