"""Append events to a data folder: what is there stays as it is, new files are added, the manifest is replaced
last."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from data_prep.chunk import Source
from data_prep.conversion import Conversion, NodeTable
from data_prep.first_pass import FirstPass
from data_prep.log_before import LogBefore
from data_prep.node_features import NodeFeatures
from data_prep.pipeline import as_read, records_of, require_few_nodes
from data_prep.sources import open_sources
from data_prep.table_readers import TableReader
from data_prep.times import TimeRanks
from data_prep.understood import Tell, say_appended, say_columns
from tpnet_dist.errors import InputError
from tpnet_dist.events import EventColumns, EventLog
from tpnet_dist.events.features import NODE_FEATURES_NAME, FeatureWriter
from tpnet_dist.events.file_records import FeatureRecord, FileRecord, ShardRecord, describe_file
from tpnet_dist.events.folder import grown_folder
from tpnet_dist.events.manifest import Manifest, write_manifest
from tpnet_dist.events.preparation import Preparation
from tpnet_dist.events.shards import ShardWriter
from tpnet_dist.events.writer import NODE_IDS_NAME
from tpnet_dist.files.progress import Display

_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Appending:
    """What the user says of an append; the log's manifest says the rest."""

    inputs: tuple[str, ...]
    header: bool | None = None
    """Whether the first line names the columns; None: as in the files that were converted."""
    bipartite: bool | None = None
    """Whether sources and destinations have id spaces of their own; None: as in the log."""
    sort: bool = False
    node_features: str | None = None
    node_table: TableReader | None = None
    """A table in memory, in place of the source that `node_features` names."""
    accept_doubts: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class Appended:
    """The log after an append, and what was added."""

    manifest: Manifest
    events: int = 0
    nodes: int = 0
    """The number of new nodes."""
    is_there: bool = False
    """Whether these files were appended last time already."""


def append(
    appending: Appending,
    folder: Path,
    *,
    display: Display,
    tell: Tell = print,
    tables: Sequence[TableReader] = (),
) -> Appended:
    """Append files to a log. The folder is what it was until all is written, and stays so if anything
    fails."""
    with grown_folder(folder) as staging:
        log = EventLog(folder)
        before = LogBefore(log)
        job = _job(appending, before)
        sources: list[Source] = open_sources(job, staging, tables, may_be_empty=True)
        for source in sources:
            before.require_fits(source)
        if not sources or before.has_already(sources):
            return Appended(log.manifest, is_there=bool(sources))
        return _Append(job, before, sources, staging, display, tell).run(dry_run=appending.dry_run)


class _Append:
    """One append, from its sources to the manifest in the staging folder."""

    def __init__(
        self,
        job: Conversion,
        before: LogBefore,
        sources: list[Source],
        staging: Path,
        display: Display,
        tell: Tell,
    ) -> None:
        self.job, self.before, self.sources = job, before, sources
        self.staging, self.display, self.tell = staging, display, tell
        self.first = FirstPass(job, sources[0], staging, before)

    def run(self, *, dry_run: bool) -> Appended:
        first, before, old = self.first, self.before, self.before.manifest
        self._read()
        if not first.events:
            return Appended(old)
        nodes = before.new_nodes()
        require_few_nodes(old.nodes + len(nodes))
        table = self._node_table()
        records = records_of(self.sources)
        if dry_run:
            return Appended(old, first.events, len(nodes))
        log_id = hashlib.sha256(f"{old.log_id} {first.log_id()}".encode()).hexdigest()[:16]
        with self.display.stage("writing", first.events):
            shards, last_time = self._write_events(log_id)
        first.spill.remove()
        for spooled in self.staging.glob("standard_input"):
            spooled.unlink()
        node_ids = self._write_nodes(nodes)
        grown = replace(
            old,
            log_id=log_id,
            events=old.events + first.events,
            nodes=old.nodes + len(nodes),
            last_time=last_time,
            shards=(*old.shards, *shards),
            versions=old.history,
            preparation=self._preparation(),
        ).with_version(
            node_ids=node_ids,
            edge_features=first.features.finish() if first.features else None,
            node_features=self._write_node_features(table, nodes),
            sources=tuple(records),
        )
        write_manifest(self.staging, grown)
        return Appended(grown, first.events, len(nodes))

    def _read(self) -> None:
        first, job, sources = self.first, self.job, self.sources
        say_columns(sources, job, first.rule, self.tell)
        with self.display.stage("reading", sum(source.num_bytes for source in sources), unit="rows"):
            first.read(sources, self.display)
        if not first.events:
            return
        if job.dedupe:
            self.tell(f"  {'duplicates':<12} {first.drop_duplicates(self.staging):,} events dropped")
        say_appended(first, self.before, job, self.tell)

    def _node_table(self) -> NodeFeatures | None:
        job, kept, folder = self.job, self.before.preparation, self.before.log.folder
        if job.node_table is None:
            return None
        if not kept.node_columns:
            raise InputError(
                f"--node-features {job.node_table.source}: {folder} has no node features of a table; leave "
                "it away"
            )
        return NodeFeatures(job.node_table, job, self.staging, kept.node_columns)

    def _write_events(self, log_id: str) -> tuple[list[ShardRecord], int | float]:
        job, first, old = self.job, self.first, self.before.manifest
        of_src, of_dst = self.before.dense_ids()
        ranks = None if job.time_step is None else self._ranks(job.time_step)
        writer = ShardWriter(
            self.staging,
            log_id=log_id,
            time_dtype=old.time_dtype,
            events_per_shard=job.events_per_shard,
            first_number=len(old.shards),
        )
        last_time = old.last_time
        for block in first.spill.read(as_read if ranks else first.times.to_final):
            time = ranks.replace(block.time).astype(old.time_dtype) if ranks else block.time
            writer.append(EventColumns(of_src[block.src], of_dst[block.dst], time, block.label))
            last_time = time[-1].item()
            if first.features:
                first.features.place(block.feature_row)
            self.display.advance(len(block))
        writer.close()
        return writer.records, last_time

    def _ranks(self, step: float) -> TimeRanks:
        """Return the ranks of times, which go on from the log's last one."""
        before = self.before
        return TimeRanks(
            step, rank=round(before.manifest.last_time / step), last=before.preparation.last_time
        )

    def _write_nodes(self, nodes: pa.Table) -> FileRecord | None:
        if not len(nodes):
            return None
        path = self.staging / self.before.part_name(NODE_IDS_NAME)
        pq.write_table(nodes, path, compression="zstd", write_page_checksum=True)
        return describe_file(path)

    def _write_node_features(self, table: NodeFeatures | None, nodes: pa.Table) -> FeatureRecord | None:
        """Write the features of the new nodes; those of the others stay as they are."""
        record, path = (
            self.before.manifest.node_features,
            self.staging / self.before.part_name(NODE_FEATURES_NAME),
        )
        if record is None or not len(nodes):
            return None
        if table is not None:
            written, said = table.write(path, nodes)
            self.tell(f"  {'node features':<12} {said}")
            return written
        with FeatureWriter(path, record.width) as writer:
            for start in range(0, len(nodes), _ROWS_AT_ONCE):
                count = min(_ROWS_AT_ONCE, len(nodes) - start)
                writer.append(np.zeros((count, record.width), np.float32))
        self.tell(
            f"  {'node features':<12} {len(nodes):,} new nodes get zeros; --node-features gives them some"
        )
        return writer.record()

    def _preparation(self) -> Preparation:
        kept = self.before.preparation
        return kept if self.job.time_step is None else replace(kept, last_time=self.first.times.highest)


def _job(appending: Appending, before: LogBefore) -> Conversion:
    """Return the conversion of the new files, by the rules that the log was converted with."""
    kept, is_bipartite = before.preparation, before.manifest.bipartite
    if appending.bipartite is not None and appending.bipartite != is_bipartite:
        said, spaces = (
            ("--bipartite", "one id space") if appending.bipartite else ("--one-id-space", "two id spaces")
        )
        raise InputError(
            f"{said}: {before.log.folder} has {spaces}; leave it away, or convert everything anew"
        )
    step = before.option("time_step")
    table = None
    if appending.node_features is not None:
        columns = tuple(dict.fromkeys(column.name.partition("[")[0] for column in kept.node_columns))
        table = NodeTable(
            source=appending.node_features,
            node_id=kept.node_id or "",
            columns=columns,
            table=appending.node_table,
        )
    return Conversion(
        inputs=appending.inputs,
        layout=before.layout(appending.header),
        bipartite=is_bipartite,
        one_id_space=not is_bipartite,
        time_unit=kept.time_unit,
        time_format=kept.time_format,
        time_step=float(step) if isinstance(step, int | float) else None,
        sort=appending.sort or bool(before.option("sort")),
        dedupe=bool(before.option("dedupe")),
        features=before.feature_options(),
        node_table=table,
        accept_doubts=appending.accept_doubts,
        missing=("",) if appending.accept_doubts else before.missing,
    )
