"""The route of a raw file: parse and code (first pass), assign dense ids, write shards (second pass)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.chunk import Source
from data_prep.conversion import Conversion
from data_prep.dense_ids import assign_dense_ids
from data_prep.feature_files import load_matrix, write_node_features
from data_prep.first_pass import FirstPass
from data_prep.node_features import NodeFeatures
from data_prep.raw_features import FeatureOptions
from data_prep.sources import open_sources
from data_prep.table_readers import TableReader
from data_prep.times import TimeRanks
from data_prep.understood import Tell, say_columns, say_log
from tpnet_dist.errors import InputError
from tpnet_dist.events.features import NODE_FEATURES_NAME
from tpnet_dist.events.file_records import FeatureRecord
from tpnet_dist.events.folder import staged_folder
from tpnet_dist.events.manifest import MAX_NODES, Manifest
from tpnet_dist.events.preparation import Preparation, SourceRecord, TextForm
from tpnet_dist.events.shards import EventColumns, Times
from tpnet_dist.events.writer import EventLogWriter
from tpnet_dist.files.progress import Display

_LARGE = 2**31
"""Bytes of text that 32-bit offsets cannot reach."""


class _DryRun(Exception):
    """All has been said, and nothing is to be written."""


def convert(
    job: Conversion,
    out_dir: Path,
    *,
    overwrite: bool,
    display: Display,
    tell: Tell = print,
    dry_run: bool = False,
    tables: Sequence[TableReader] = (),
) -> Manifest | None:
    """Make `out_dir` from the inputs; it appears complete or not at all. `tell` gets what was understood of
    them. With `dry_run`, stop when all has been said. `tables`: sources in memory, beside those of the
    job."""
    try:
        with staged_folder(out_dir, overwrite=overwrite or dry_run) as staging:
            sources = open_sources(job, staging, tables)
            return _convert_into(staging, job, sources, display, tell, dry_run=dry_run)
    except _DryRun:
        return None


def _convert_into(
    staging: Path, job: Conversion, sources: list[Source], display: Display, tell: Tell, *, dry_run: bool
) -> Manifest:
    first = FirstPass(job, sources[0], staging)
    say_columns(sources, job, first.rule, tell)
    node_table = None if job.node_table is None else NodeFeatures(job.node_table, job, staging)
    of_nodes = () if node_table is None else node_table.columns
    _require_features(job.features, {*sources[0].roles.feature_names, *(each.name for each in of_nodes)})
    with display.stage("reading", sum(source.num_bytes for source in sources), unit="rows"):
        first.read(sources, display)
    if job.dedupe:
        tell(f"  {'duplicates':<12} {first.drop_duplicates(staging):,} events dropped")
    say_log(first, job, tell)
    for name, count in first.reading.num_gaps.items():
        tell(f"  {'missing':<12} {count:,} values of {name}, filled with {job.features.fill}")
    if dry_run:
        raise _DryRun
    records = records_of(sources)
    nodes = _assign_ids(first)
    node_features = _node_features(job, nodes, staging)
    if node_table is not None:
        node_features, said = node_table.write(staging / NODE_FEATURES_NAME, nodes.table)
        tell(f"  {'node features':<12} {said}")
    with display.stage("writing", first.events):
        writer = _write_events(job, first, nodes, staging, display)
    first.spill.remove()
    for spooled in staging.glob("standard_input"):
        spooled.unlink()
    return writer.finish(
        nodes.table,
        source=job.source,
        has_labels=sources[0].roles.label is not None,
        bipartite=job.bipartite,
        edge_features=first.features.finish() if first.features else None,
        node_features=node_features,
        preparation=replace(
            _preparation(job, sources[0], first, records),
            last_time=first.times.highest if job.time_step is not None else None,
            node_columns=node_table.columns if node_table else (),
            node_id=job.node_table.node_id if job.node_table else None,
        ),
    )


def _require_features(options: FeatureOptions, columns: set[str]) -> None:
    """Refuse options that would change nothing. `columns`: those of features, of events and of nodes."""
    for name in options.one_hot:
        if name not in columns:
            raise InputError(
                f"--one-hot {name}: is none of the columns of features; name it with --features too, or "
                "correct it"
            )
    if not columns and not options.is_plain:
        option = "--standardize" if options.fill is None else f"--fill {options.fill}"
        raise InputError(
            f"{option}: no column of features is read; name some with --features or --node-features"
        )


def _preparation(
    job: Conversion, source: Source, first: FirstPass, records: list[SourceRecord]
) -> Preparation:
    roles, form = source.roles, source.form
    return Preparation(
        columns=roles.names,
        src=roles.names[roles.src],
        dst=roles.names[roles.dst],
        time=roles.names[roles.time],
        label=roles.name_of(roles.label),
        features=tuple(roles.feature_names),
        feature_names=tuple(first.features.names) if first.features else (),
        edge_columns=first.features.columns if first.features else (),
        time_unit=first.rule.unit,
        time_format=first.rule.format,
        text=None
        if form is None
        else TextForm(
            delimiter=form.delimiter,
            has_header=form.has_header,
            comment=form.comment,
            decimal_comma=form.decimal_comma,
        ),
        sources=tuple(records),
        options={
            "bipartite": job.bipartite,
            "time_step": job.time_step,
            "sort": job.sort,
            "dedupe": job.dedupe,
            "fill": job.features.fill,
            "one_hot": list(job.features.one_hot),
            "standardize": job.features.standardize,
        },
    )


@dataclass(frozen=True)
class _Nodes:
    """Code → dense id for both columns, and what `node_ids.parquet` says."""

    of_src: npt.NDArray[np.int32]
    of_dst: npt.NDArray[np.int32]
    table: pa.Table


def _assign_ids(first: FirstPass) -> _Nodes:
    maps = [first.sources] if first.sources is first.destinations else [first.sources, first.destinations]
    # of nodes with the same degree, those seen as sources come first, in order of appearance
    order = _together([ids.sources_first() for ids in maps])
    degree = first.degrees if first.degrees is not None else np.concatenate([ids.degree for ids in maps])
    require_few_nodes(len(degree))
    dense = np.empty(len(degree), np.int32)
    dense[order] = assign_dense_ids(degree[order])
    code_of = np.empty_like(dense)
    code_of[dense] = np.arange(len(dense), dtype=np.int32)
    raw = [ids.raw for ids in maps]
    if len({ids.type for ids in raw}) > 1:
        raw = [pc.cast(ids, pa.large_string()) for ids in raw]
    raw_id = pa.concat_arrays(raw).take(pa.array(code_of))
    if raw_id.type == pa.large_string() and raw_id.nbytes < _LARGE:
        raw_id = pc.cast(raw_id, pa.string())
    columns = {"raw_id": raw_id, "degree": pa.array(degree[code_of])}
    if len(maps) > 1:
        columns["side"] = pc.if_else(pa.array(code_of < len(first.sources)), "src", "dst")
    num_sources = len(first.sources)
    of_dst = dense if len(maps) == 1 else dense[num_sources:]
    return _Nodes(dense[:num_sources], of_dst, pa.table(columns))


def _together(orders: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """Join codes of several maps, one map's after the other's."""
    begins = np.cumsum([0, *(len(order) for order in orders[:-1])])
    return np.concatenate([order + begin for order, begin in zip(orders, begins, strict=True)])


def _write_events(
    job: Conversion, first: FirstPass, nodes: _Nodes, staging: Path, display: Display
) -> EventLogWriter:
    """Make the second pass: read the spill in time order, exchange codes for dense ids, write shards."""
    ranks = None if job.time_step is None else TimeRanks(job.time_step)
    writer = EventLogWriter(
        staging,
        log_id=first.log_id(),
        time_dtype=ranks.dtype if ranks else first.times.dtype,
        time_unit="s" if ranks else first.times.stored_unit,
        events_per_shard=job.events_per_shard,
    )
    for block in first.spill.read(as_read if ranks else first.times.to_final):
        time = ranks.replace(block.time) if ranks else block.time
        writer.append(EventColumns(nodes.of_src[block.src], nodes.of_dst[block.dst], time, block.label))
        if first.features:
            first.features.place(block.feature_row)
        display.advance(len(block))
    return writer


def require_few_nodes(count: int) -> None:
    if count > MAX_NODES:
        raise InputError(f"{count:,} nodes, but at most {MAX_NODES:,} can be held; use a part of the log")


def records_of(sources: Sequence[Source]) -> list[SourceRecord]:
    """Return the records of those sources that are files, which nobody may have changed meanwhile."""
    return [record for source in sources if (record := source.record()) is not None]


def as_read(times: Times) -> Times:
    """Return the times unchanged: ranks take the place of times whatever these count."""
    return times


def _node_features(job: Conversion, nodes: _Nodes, staging: Path) -> FeatureRecord | None:
    if job.node_matrix is None or (matrix := load_matrix(job.node_matrix)) is None:
        return None
    return write_node_features(staging, matrix, nodes.table.column("raw_id").combine_chunks())
