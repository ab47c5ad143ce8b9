"""A table of node features, in the order of dense ids: nodes without a line get zeros, and are counted."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.conversion import Conversion, NodeTable
from data_prep.layout import Layout
from data_prep.places import Place, places_of
from data_prep.raw_features import Blocks, FeatureReading
from data_prep.raw_files import first_lines, is_comment
from data_prep.sources import reader_of_place
from data_prep.table_readers import TableReader
from data_prep.table_source import is_list
from data_prep.text_source import guess_delimiter
from data_prep.values import Rejected, parse_ids
from tpnet_dist.errors import InputError
from tpnet_dist.events.feature_rules import FeatureColumn, Matrix, transform
from tpnet_dist.events.features import FeatureWriter
from tpnet_dist.events.file_records import FeatureRecord
from tpnet_dist.events.text_columns import without_views

SIDE = "side"

Places = npt.NDArray[Any]


class NodeFeatures:
    """Reads the table; `write` puts it into the order of a log's nodes."""

    def __init__(
        self, wanted: NodeTable, job: Conversion, spool: Path, known: tuple[FeatureColumn, ...] = ()
    ) -> None:
        """`known`: what an earlier conversion made of the columns."""
        self._name, self._may_miss_all = wanted.source, bool(known) or job.accept_doubts
        table = _read(wanted, job.layout, spool)
        if not len(table):
            raise InputError(f"{self._name}: holds no rows; give a table with node features")
        self._ids = self._parsed_ids(table, wanted, missing=job.missing)
        self._side = self._parsed_sides(table) if job.bipartite else None
        of_no_feature = {wanted.node_id, SIDE} if job.bipartite else {wanted.node_id}
        names = list(wanted.columns) or [name for name in table.column_names if name not in of_no_feature]
        if missing := [name for name in (wanted.node_id, *names) if name not in table.column_names]:
            raise InputError(
                f"{self._name}: has no column {missing[0]!r} among {', '.join(table.column_names)}; correct "
                "--node-id or --node-columns"
            )
        reading, self._decimal_comma = FeatureReading(job.features, known), job.layout.decimal_comma
        value_names, raw = self._raw(table, names, reading)
        self.columns = reading.columns(value_names, Blocks(lambda rows: raw[rows], len(raw)))
        self._values = transform(self.columns, reading.renumber(raw, self.columns))

    @property
    def names(self) -> list[str]:
        return [name for column in self.columns for name in column.names]

    def write(self, path: Path, nodes: pa.Table) -> tuple[FeatureRecord, str]:
        """Write the features. `nodes`: raw ids by dense id. Return the file's record, and what there is to
        say."""
        places = self._places(nodes)
        has_line = places >= 0
        if not has_line.any() and not self._may_miss_all:
            raise InputError(
                f"{self._name}: none of its {len(self._ids):,} ids, such as {self._ids[0]}, is one of the "
                f"log's, such as {nodes.column('raw_id')[0]}; check --node-id, or --yes for zeros"
            )
        with FeatureWriter(path, self._values.shape[1]) as writer:
            for start in range(0, len(places), 1 << 16):
                some = places[start : start + (1 << 16)]
                writer.append(
                    np.where((some >= 0)[:, None], self._values[np.maximum(some, 0)], np.float32(0))
                )
        unused = len(self._values) - len(np.unique(places[has_line]))
        said = (
            f"{len(self.names):,} of {self._name}; {int((~has_line).sum()):,} of {len(places):,} nodes "
            "have no line "
            f"there and get zeros, {unused:,} lines are of no node"
        )
        return writer.record(), said

    def _places(self, nodes: pa.Table) -> Places:
        """Return the line of each node, -1 if it has none."""
        raw, ids = nodes.column("raw_id").combine_chunks(), self._ids
        if pa.types.is_integer(raw.type) != pa.types.is_integer(ids.type):
            raw, ids = pc.cast(raw, pa.large_string()), pc.cast(ids, pa.large_string())
        else:
            ids = pc.cast(ids, raw.type)
        if SIDE not in nodes.column_names:
            self._require_once(ids)
            return _found(raw, ids)
        sides = nodes.column(SIDE).to_numpy()
        if self._side is None:
            self._require_once(ids)
            self._require_one_side(raw, sides, ids)
            return _found(raw, ids)
        places = np.full(len(raw), -1, np.int64)
        for side in ("src", "dst"):
            of_side = np.flatnonzero(pc.equal(self._side, side).to_numpy(zero_copy_only=False))
            self._require_once(own := ids.take(pa.array(of_side)))
            nodes_of_side = np.flatnonzero(sides == side)
            found = _found(raw.take(pa.array(nodes_of_side)), own)
            places[nodes_of_side] = np.where(found >= 0, np.append(of_side, -1)[found], -1)
        return places

    def _require_once(self, ids: pa.Array) -> None:
        counts = pc.value_counts(ids)
        several = counts.filter(pc.greater(counts.field("counts"), 1))
        if len(several):
            raise InputError(f"{self._name}: node {several[0]['values']} has several lines; keep one of each")

    def _require_one_side(self, raw: pa.Array, sides: Places, ids: pa.Array) -> None:
        first, second = (raw.filter(pa.array(sides == side)) for side in ("src", "dst"))
        both = first.filter(pc.and_(pc.is_in(first, second), pc.is_in(first, ids)))
        if len(both):
            raise InputError(
                f"{self._name}: id {both[0]} is a source and a destination, which are two nodes here; add "
                "a column "
                f"{SIDE!r} that says src or dst"
            )

    def _parsed_ids(self, table: pa.Table, wanted: NodeTable, *, missing: Sequence[str]) -> pa.Array:
        if wanted.node_id not in table.column_names:
            raise InputError(
                f"{self._name}: has no column {wanted.node_id!r} among {', '.join(table.column_names)}; "
                "correct "
                "--node-id"
            )
        try:
            return parse_ids(table.column(wanted.node_id).combine_chunks(), as_text=False, missing=missing)
        except Rejected:
            raise InputError(
                f"{self._name}: column {wanted.node_id!r} holds an id that is missing, or neither text nor "
                "a whole "
                "number; correct it"
            ) from None

    def _parsed_sides(self, table: pa.Table) -> pa.Array | None:
        if SIDE not in table.column_names:
            return None
        sides = table.column(SIDE).combine_chunks()
        wrong = [each for each in pc.unique(sides).to_pylist() if each not in ("src", "dst")]
        if wrong:
            raise InputError(f"{self._name}: column {SIDE!r} holds {wrong[0]!r}; it must say src or dst")
        return sides

    def _raw(self, table: pa.Table, names: list[str], reading: FeatureReading) -> tuple[list[str], Matrix]:
        """Return a name for each value, and the values."""
        parts, value_names = [], []
        for name in names:
            column = table.column(name).combine_chunks()
            try:
                values = _values_of(column, name, reading, decimal_comma=self._decimal_comma)
                parts.append(values)
                width = values.shape[1]
                value_names += [name] if not is_list(column.type) else [f"{name}[{n}]" for n in range(width)]
            except Rejected:
                raise InputError(
                    f"{self._name}: column {name!r} holds values that are missing or no finite numbers; "
                    "correct "
                    "them, pass --fill 0 or --fill mean, or for categories --one-hot"
                ) from None
        if not parts:
            raise InputError(f"{self._name}: has no column beside the id; name features with --node-columns")
        return value_names, np.column_stack(parts)


def _found(raw: pa.Array, ids: pa.Array) -> Places:
    """Return the place of each raw id among these, -1 if it has none."""
    places: Places = pc.fill_null(pc.index_in(raw, value_set=ids), -1).to_numpy().astype(np.int64)
    return places


def _values_of(column: pa.Array, name: str, reading: FeatureReading, *, decimal_comma: bool) -> Matrix:
    if not is_list(column.type):
        return reading.column(column, name, decimal_comma=decimal_comma)[:, None]
    lengths = pc.unique(pc.list_value_length(column))
    if column.null_count or len(lengths) != 1 or not lengths[0].as_py():
        raise Rejected
    return reading.column(pc.list_flatten(column), name).reshape(len(column), -1)


def _read(wanted: NodeTable, layout: Layout, spool: Path) -> pa.Table:
    if wanted.table is not None:
        tables = _parts_of(wanted.table)
    else:
        places = places_of([wanted.source], spool)
        tables = [part for place in places for part in _parts_at(place, wanted, layout)]
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        text = " ".join(str(error).split())
        raise InputError(
            f"{wanted.source}: its files do not fit together ({text:.120}); write them with one type"
        ) from error


def _parts_of(reader: TableReader) -> list[pa.Table]:
    """Return all batches; those of JSON may differ in their types."""
    names = reader.schema.names
    parts = [
        pa.table([without_views(column) for column in batch.columns], batch.schema.names)
        for batch, _ in reader.batches(names)
    ]
    return parts or [reader.schema.empty_table()]


def _parts_at(place: Place, wanted: NodeTable, layout: Layout) -> list[pa.Table]:
    """Read a table; text is written as that of events is."""
    reader = reader_of_place(place)
    if reader is not None:
        return _parts_of(reader)
    lines = first_lines(place, comment=layout.comment)
    lines = [line for line in lines if line.strip() and not is_comment(line, layout.comment)]
    if not lines:
        raise InputError(f"{place.name}: holds no rows; give a table with node features")
    try:
        # ids as they are written
        with place.open() as file:
            frame = pl.read_csv(
                file.read(),
                separator=guess_delimiter(place.name, lines, layout),
                comment_prefix=layout.comment,
                infer_schema_length=None,
                schema_overrides={wanted.node_id: pl.String},
            )
    except (pl.exceptions.PolarsError, OSError) as error:
        text = " ".join(str(error).split())
        raise InputError(
            f"{place.name}: cannot be read as CSV with a header ({text:.120}); correct it"
        ) from error
    return [frame.to_arrow()]
