"""The route of a raw file: parse and code (first pass), assign dense ids, write shards (second pass)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.conversion import Conversion
from data_prep.dense_ids import assign_dense_ids
from data_prep.feature_files import load_matrix, write_node_features
from data_prep.first_pass import FirstPass
from data_prep.layout import Table, inspect
from data_prep.times import TimeRanks
from tpnet_dist.errors import InputError
from tpnet_dist.events.folder import staged_folder
from tpnet_dist.events.manifest import FeatureRecord, Manifest
from tpnet_dist.events.shards import EventColumns
from tpnet_dist.events.writer import EventLogWriter
from tpnet_dist.files.progress import Display

MAX_NODES = 2**31 - 1


def convert(job: Conversion, out_dir: Path, *, overwrite: bool, display: Display) -> Manifest:
    """Make `out_dir` from the inputs; it appears complete or not at all."""
    tables = [inspect(path, job.layout) for path in job.inputs]
    _check_alike(tables)
    with staged_folder(out_dir, overwrite=overwrite) as staging:
        first = FirstPass(job, tables, staging)
        with display.stage("reading", sum(path.stat().st_size for path in job.inputs), unit="rows"):
            first.read(tables, display)
        nodes = _assign_ids(first)
        node_features = _node_features(job, nodes, staging)
        with display.stage("writing", first.events):
            writer = _write_events(job, first, nodes, staging, display)
        first.spill.remove()
        return writer.finish(
            nodes.table,
            source=job.source,
            has_labels=tables[0].label is not None,
            bipartite=job.bipartite,
            edge_features=first.features.finish() if first.features else None,
            node_features=node_features,
        )


@dataclass(frozen=True)
class _Nodes:
    """Code → dense id for both columns, and what `node_ids.parquet` says."""

    of_src: npt.NDArray[np.int32]
    of_dst: npt.NDArray[np.int32]
    table: pa.Table


def _assign_ids(first: FirstPass) -> _Nodes:
    maps = [first.sources] if first.sources is first.destinations else [first.sources, first.destinations]
    degree = np.concatenate([ids.degree for ids in maps])
    if len(degree) > MAX_NODES:
        raise InputError(
            f"{len(degree):,} nodes, but at most {MAX_NODES:,} can be held; use a part of the log"
        )
    dense = assign_dense_ids(degree).astype(np.int32)
    code_of = np.empty_like(dense)
    code_of[dense] = np.arange(len(dense), dtype=np.int32)
    raw = [ids.raw for ids in maps]
    if len({ids.type for ids in raw}) > 1:
        raw = [pc.cast(ids, pa.string()) for ids in raw]
    columns = {"raw_id": pa.concat_arrays(raw).take(pa.array(code_of)), "degree": pa.array(degree[code_of])}
    if len(maps) > 1:
        columns["side"] = pc.if_else(pa.array(code_of < len(first.sources)), "src", "dst")
    num_sources = len(first.sources)
    of_dst = dense if len(maps) == 1 else dense[num_sources:]
    return _Nodes(dense[:num_sources], of_dst, pa.table(columns))


def _write_events(
    job: Conversion, first: FirstPass, nodes: _Nodes, staging: Path, display: Display
) -> EventLogWriter:
    """The second pass: read the spill in time order, exchange codes for dense ids, write shards."""
    ranks = None if job.time_step is None else TimeRanks(job.time_step)
    writer = EventLogWriter(
        staging,
        log_id=first.log_id(),
        time_dtype=ranks.dtype if ranks else first.times.dtype,
        time_unit="s" if ranks else first.times.stored_unit,
        events_per_shard=job.events_per_shard,
    )
    for block in first.spill.read(first.times.to_final):
        time = ranks.replace(block.time) if ranks else block.time
        writer.append(EventColumns(nodes.of_src[block.src], nodes.of_dst[block.dst], time, block.label))
        if first.features:
            first.features.place(block.feature_row)
        display.advance(len(block))
    return writer


def _node_features(job: Conversion, nodes: _Nodes, staging: Path) -> FeatureRecord | None:
    if job.node_matrix is None or (matrix := load_matrix(job.node_matrix)) is None:
        return None
    return write_node_features(staging, matrix, nodes.table.column("raw_id").combine_chunks())


def _check_alike(tables: list[Table]) -> None:
    """Several files are one log only if they offer the same things."""
    first = tables[0]
    for table in tables[1:]:
        if len(table.features) != len(first.features):
            raise InputError(
                f"{table.path}: {len(table.features)} feature columns where {first.path} has "
                f"{len(first.features)}; give files with the same columns"
            )
        if table.has_names and first.has_names and table.feature_names != first.feature_names:
            raise InputError(
                f"{table.path}: feature columns {table.feature_names} where {first.path} has "
                f"{first.feature_names}; name them in one order with --features"
            )
