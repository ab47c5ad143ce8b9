"""A typed table as a source of events: which types serve as what, and which row is wrong."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.chunk import Chunk, ChunkRejected, Rules
from data_prep.layout import Layout, find_roles
from data_prep.row_rules import (
    RuleBroken,
    check_number,
    check_time,
    check_time_beside_others,
    require_id,
    require_kind,
)
from data_prep.table_readers import ROWS_PER_BATCH, TableReader
from data_prep.times import TimeForm
from data_prep.values import (
    NoEvents,
    Rejected,
    TimeRule,
    is_text,
    parse_feature_rows,
    parse_ids,
    parse_numbers,
    parse_times,
)
from tpnet_dist.errors import InputError
from tpnet_dist.events.feature_rules import numbers_with_gaps
from tpnet_dist.events.preparation import SourceRecord, TextForm, TimeUnit
from tpnet_dist.events.text_columns import without_views

_KEPT_BATCHES = 8
"""More batches than are read ahead, so that a rejected one is among them."""
_ROWS_AT_ONCE = 4096
_CORRECT = "fill it in or remove the row"
_FILL = "fill it in, remove the row, or pass --fill 0 or --fill mean"

Matrix = npt.NDArray[np.float32]


class TableSource:
    """One table, whatever holds it."""

    form: TextForm | None = None

    def __init__(self, reader: TableReader, layout: Layout, one_hot: Sequence[str] = ()) -> None:
        """`one_hot`: columns of categories, which may hold text."""
        self.reader, self.name, self.num_bytes = reader, reader.name, reader.num_bytes
        names = list(reader.schema.names)
        self.roles = find_roles(self.name, names, layout, has_names=True)
        head = reader.head()
        self._head = pa.record_batch([without_views(column) for column in head.columns], names)
        if not self._head.num_rows:
            raise NoEvents(f"{self.name}: holds no rows; give a table with at least one event")
        self._decimal_comma, self._one_hot, self._is_kept = layout.decimal_comma, one_hot, layout.is_kept
        self._require_types()
        self._widths = {position: self._width_of(position) for position in self.roles.features}
        self._recent: deque[tuple[int, pa.RecordBatch]] = deque(maxlen=_KEPT_BATCHES)

    @property
    def time_unit(self) -> TimeUnit | None:
        kind = self._type(self.roles.time)
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return "iso"
        if is_text(kind) and self._holds_dates_as_text():
            return "iso"
        return kind.unit if pa.types.is_duration(kind) else None

    def _holds_dates_as_text(self) -> bool:
        """Return whether times are ISO dates as text; JSON has no others."""
        column = self._head.column(self.roles.names[self.roles.time])[:1]
        try:
            parse_times(column, TimeRule(unit="iso"))
        except Rejected:
            return False
        return True

    @property
    def feature_names(self) -> list[str]:
        """Return the name of each feature; a list column has several."""
        return [
            name if width is None else f"{name}[{number}]"
            for position, width in self._widths.items()
            for name in [self.roles.names[position]]
            for number in range(1 if width is None else width)
        ]

    @property
    def id_kinds(self) -> str:
        kinds = (
            "text" if is_text(self._type(each)) else "numbers" for each in (self.roles.src, self.roles.dst)
        )
        return " and ".join(kinds)

    def sample(self) -> list[pa.Array]:
        return [self._head.column(name) for name in self.roles.names]

    def about(self) -> str:
        return self.reader.about()

    def record(self) -> SourceRecord | None:
        return self.reader.record()

    def chunks(self, rules: Rules) -> Iterator[Chunk]:
        first_row = 0
        columns = [self.roles.names[position] for position in dict.fromkeys(self.roles.used)]
        for whole, bytes_read in self.reader.batches(columns):
            for start in range(0, whole.num_rows, ROWS_PER_BATCH):
                batch = whole.slice(start, ROWS_PER_BATCH)
                self._recent.append((first_row, batch))
                try:
                    yield self._parse(batch, rules, first_row, bytes_read)
                except Rejected:
                    raise ChunkRejected(first_row) from None
                first_row += batch.num_rows

    def explain(self, rules: Rules, from_row: int, before: TimeForm) -> NoReturn:
        for first_row, batch in self._recent:
            for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                block = batch.slice(start, _ROWS_AT_ONCE)
                if first_row + start < from_row or self._pass_unseen(block, rules, before):
                    continue
                for row in range(block.num_rows):
                    try:
                        self._check_row(block.slice(row, 1), rules, before)
                    except RuleBroken as broken:
                        where = f"{self.name} row {first_row + start + row + 1:,}"
                        raise InputError(f"{where}: {broken}") from None
        raise InputError(
            f"{self.name}: rejected after row {from_row:,} for no rule known here; please report it with "
            "the file"
        )

    def _parse(self, batch: pa.RecordBatch, rules: Rules, first_row: int, bytes_read: int) -> Chunk:
        roles = self.roles
        label, row = roles.label, roles.feature_row
        return Chunk(
            first_row=first_row,
            bytes_read=bytes_read,
            src=self._ids(batch, roles.src, rules),
            dst=self._ids(batch, roles.dst, rules),
            time=parse_times(self._column(batch, roles.time), rules.time),
            label=None if label is None else parse_numbers(self._column(batch, label)),
            features=self._features(batch, rules) if roles.features else None,
            feature_row=None if row is None else parse_feature_rows(self._column(batch, row), below=None),
            has_parsed_ids=True,
        )

    def _ids(self, batch: pa.RecordBatch, position: int, rules: Rules) -> pa.Array:
        return parse_ids(self._column(batch, position), as_text=False, missing=rules.missing)

    def _column(self, batch: pa.RecordBatch, position: int) -> pa.Array:
        place = batch.schema.get_field_index(self.roles.names[position])
        # JSON lines of which none has the key
        return pa.nulls(batch.num_rows) if place < 0 else without_views(batch.column(place))

    def _features(self, batch: pa.RecordBatch, rules: Rules) -> Matrix:
        parts = []
        for position, width in self._widths.items():
            column = self._column(batch, position)
            if width is None:
                name, comma = self.roles.names[position], self._decimal_comma
                parts.append(rules.features.column(column, name, decimal_comma=comma)[:, None])
            else:
                parts.append(_list_values(column, width, rules, self.roles.names[position]))
        return np.column_stack(parts)

    def _type(self, position: int) -> pa.DataType:
        kind = self._head.schema.field(self.roles.names[position]).type
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    def _width_of(self, position: int) -> int | None:
        """How many values a list column has; None for a column of single values."""
        kind = self._type(position)
        if pa.types.is_fixed_size_list(kind):
            return int(kind.list_size)
        if not is_list(kind):
            return None
        first = self._head.column(self.roles.names[position])[0]
        if not first.is_valid or not len(first):
            raise InputError(
                f"{self.name}: column {self.roles.names[position]!r} has no values in the first row, so "
                "how many "
                "each event has is unknown; fill it in or leave the column away"
            )
        return len(first)

    def _require_types(self) -> None:
        """Refuse columns that cannot be what they are to be."""
        roles = self.roles
        rules: list[tuple[int | None, str, Any, str]] = [
            (roles.src, "source id", _can_be_id, "whole numbers or text"),
            (roles.dst, "destination id", _can_be_id, "whole numbers or text"),
            (roles.time, "time", _can_be_time, "numbers, timestamps, dates or text"),
            (roles.label, "label", _can_be_number, "numbers"),
            (roles.feature_row, "feature row", _can_be_number, "whole numbers"),
            *(
                (position, "feature", _can_be_feature, "numbers or lists of them")
                for position in roles.features
            ),
        ]
        for position, what, can_be, wanted in rules:
            if position is None or can_be(self._type(position)):
                continue
            if position in roles.features and roles.names[position] in self._one_hot:
                continue
            if position in roles.numeric and self._holds_numbers_as_text(position):
                continue
            kind, name = self._type(position), roles.names[position]
            if pa.types.is_null(kind):
                raise InputError(f"{self.name} row 1: column {name!r} ({what}) is null; fill it in")
            hint = "; flatten it first" if pa.types.is_nested(kind) else ""
            if position in roles.features and is_text(kind) and not self._is_kept:
                hint = f", or pass --one-hot {name} if it holds categories"
            raise InputError(
                f"{self.name}: column {name!r} holds {kind}, but {what}s are {wanted}; name another "
                f"column{hint}"
            )

    def _holds_numbers_as_text(self, position: int) -> bool:
        """Return whether texts are numbers, such as those of a column that a folder of Hive names."""
        if not is_text(self._type(position)):
            return False
        numbers = numbers_with_gaps(self._head.column(self.roles.names[position]))
        return numbers is not None

    def _pass_unseen(self, batch: pa.RecordBatch, rules: Rules, before: TimeForm) -> bool:
        try:
            chunk = self._parse(batch, rules, 0, 0)
        except Rejected:
            return False
        if rules.whole_ids and not (
            pa.types.is_integer(chunk.src.type) and pa.types.is_integer(chunk.dst.type)
        ):
            return False
        times = chunk.time
        if not before.accepts(times, in_order=rules.must_be_sorted):
            return False
        before.observe(times)
        return True

    def _check_row(self, row: pa.RecordBatch, rules: Rules, before: TimeForm) -> None:
        roles = self.roles
        for role, position in (("source", roles.src), ("destination", roles.dst)):
            self._check_id(self._column(row, position), role, rules)
        column = self._column(row, roles.time)
        written = column[0].as_py() if column[0].is_valid else None
        if written is None:
            raise RuleBroken(
                f"time (column {roles.names[roles.time]!r}) is missing; fill it in or remove the row"
            )
        try:
            times = parse_times(column, rules.time)
        except Rejected:
            is_date = pa.types.is_temporal(column.type) and rules.time.is_dates
            if is_date:
                raise RuleBroken(
                    f"time {written} is before 1970 or after 2262-04-11; shift or remove it"
                ) from None
            times = check_time(str(written).strip(), rules.time)
        check_time_beside_others(str(written), times, rules, before)
        for position in roles.numeric:
            self._check_number(self._column(row, position), position, rules)
        before.observe(times)

    def _check_id(self, column: pa.Array, role: str, rules: Rules) -> None:
        value = column[0].as_py()
        require_id(value, role, rules)
        try:
            ids = parse_ids(column, as_text=False, missing=rules.missing)
        except Rejected:
            if isinstance(value, float) and value.is_integer():
                raise RuleBroken(
                    f"{role} id {value!r} may have been rounded, since the column's type, {column.type}, "
                    "keeps only smaller whole numbers exactly; write ids as integers or as text"
                ) from None
            raise RuleBroken(
                f"{role} id {value!r} is neither text nor a whole number of 64 bits; correct it"
            ) from None
        require_kind(ids, f"{role} id {value!r}", rules)

    def _check_number(self, column: pa.Array, position: int, rules: Rules) -> None:
        name, width = self.roles.names[position], self._widths.get(position)
        what, value, options = f"column {name!r}", column[0].as_py(), rules.features.options
        if name in options.one_hot:
            return
        if value is None and options.fill and position != self.roles.label:
            return
        if value is None:
            may_fill = position != self.roles.label and not rules.time.is_kept
            raise RuleBroken(f"{what} is missing; {_FILL if may_fill else _CORRECT}")
        if width is None:
            check_number(str(value).strip(), what, self._decimal_comma)
            return
        if len(value) != width:
            raise RuleBroken(
                f"{what} has {len(value):,} values where the first row has {width:,}; give as many"
            )
        for each in value:
            check_number("missing" if each is None else str(each), what)


def _list_values(column: pa.Array, width: int, rules: Rules, name: str) -> Matrix:
    """A matrix of a list column; every row has as many values, or none at all where gaps are filled."""
    if column.null_count and not rules.features.options.fill:
        raise Rejected
    there = column.drop_null()
    if not pa.types.is_fixed_size_list(column.type) and len(there):
        lengths = pc.list_value_length(there)
        if pc.any(pc.not_equal(lengths, width)).as_py():
            raise Rejected
    values = rules.features.column(pc.list_flatten(there), name).reshape(len(there), width)
    if not column.null_count:
        return values
    matrix = np.full((len(column), width), np.nan, np.float32)
    matrix[column.is_valid().to_numpy(zero_copy_only=False)] = values
    return matrix


def is_list(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests)


def _can_be_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return any(test(kind) for test in tests)


def _can_be_feature(kind: pa.DataType) -> bool:
    return _can_be_number(kind.value_type if is_list(kind) else kind)


def _can_be_id(kind: pa.DataType) -> bool:
    return is_text(kind) or (_can_be_number(kind) and not pa.types.is_boolean(kind))


def _can_be_time(kind: pa.DataType) -> bool:
    tests = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_duration)
    return _can_be_id(kind) or any(test(kind) for test in tests)
