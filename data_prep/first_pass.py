"""Read every input once: codes for ids, degrees, the form of times. The events go to the spill."""

import hashlib
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa

from data_prep.conversion import Conversion
from data_prep.csv_stream import Chunk, ChunkRejected, stream_chunks
from data_prep.feature_files import ColumnFeatures, EdgeFeatures, MatrixFeatures, load_matrix
from data_prep.id_map import Codes, IdMap
from data_prep.layout import Table
from data_prep.row_rules import Rules, raise_first_offence
from data_prep.spill import CodedEvents, Spill
from data_prep.times import TimeForm
from data_prep.values import Rejected
from tpnet_dist.errors import InputError
from tpnet_dist.files.progress import Display
from tpnet_dist.files.read_ahead import read_ahead


class FirstPass:
    """What is known once all inputs have been read."""

    def __init__(self, job: Conversion, tables: list[Table], staging: Path) -> None:
        self.sources = IdMap()
        self.destinations = IdMap() if job.bipartite else self.sources
        self.times = TimeForm(job.time_unit)
        self.spill = Spill(staging / "spill", sort=job.sort)
        self.events = 0
        self._matrix = load_matrix(job.edge_matrix) if job.edge_matrix else None
        self.features = self._choose_features(job, tables[0], staging)
        self._rules = Rules(
            unit=job.time_unit,
            must_be_sorted=not job.sort,
            num_feature_rows=self._matrix.num_rows if self._matrix else None,
        )
        self._content = hashlib.sha256(repr(job.options()).encode())

    def read(self, tables: list[Table], display: Display) -> None:
        bytes_before = 0
        for table in tables:
            self._read_file(table, display, bytes_before)
            bytes_before += table.path.stat().st_size
        self.spill.close()
        if self._matrix and self._matrix.num_rows != self.events + 1:
            raise InputError(
                f"{self._matrix.path}: {self._matrix.num_rows:,} rows, but a padding row and {self.events:,} "
                f"events need {self.events + 1:,}; use the file that fits"
            )

    def log_id(self) -> str:
        """A name for the content: the same input and options give the same log, byte for byte."""
        digest = self._content.copy()
        for ids in (self.sources, self.destinations):
            digest.update(pa.record_batch([ids.raw], ["raw"]).serialize())
        return digest.hexdigest()[:16]

    def _read_file(self, table: Table, display: Display, bytes_before: int) -> None:
        first_row = 0
        try:
            for chunk in read_ahead(stream_chunks(table, self._rules.unit), depth=2):
                first_row = chunk.first_row
                self._take(chunk)
                display.advance(len(chunk), position=bytes_before + chunk.bytes_read)
        except ChunkRejected as rejected:
            self._explain(table, rejected.first_row)
        except Rejected:
            self._explain(table, first_row)

    def _explain(self, table: Table, from_row: int) -> NoReturn:
        raise_first_offence(table, self._rules, from_row=from_row, before=self.times)

    def _take(self, chunk: Chunk) -> None:
        if not self.times.accepts(chunk.time, in_order=self._rules.must_be_sorted):
            raise Rejected
        src, dst = self._encode(chunk)
        label = np.zeros(len(chunk), np.float32) if chunk.label is None else chunk.label
        rows = np.zeros(len(chunk), np.int64) if self.features is None else self.features.take(chunk)
        if (limit := self._rules.num_feature_rows) is not None and rows.max() >= limit:
            raise Rejected
        self.times.observe(chunk.time)
        self.spill.append(CodedEvents(src, dst, chunk.time, label, rows))
        self.events += len(chunk)
        for column in (src, dst, chunk.time, label, chunk.features):
            if column is not None:
                self._content.update(np.ascontiguousarray(column).data)

    def _encode(self, chunk: Chunk) -> tuple[Codes, Codes]:
        """One look-up for both columns where they share an id space."""
        if self.sources is self.destinations:
            both = self.sources.encode(pa.concat_arrays([chunk.src, chunk.dst]))
            return both[: len(chunk)], both[len(chunk) :]
        return self.sources.encode(chunk.src), self.destinations.encode(chunk.dst)

    def _choose_features(self, job: Conversion, table: Table, staging: Path) -> EdgeFeatures | None:
        if self._matrix:
            return MatrixFeatures(staging, self._matrix)
        if table.features:
            return ColumnFeatures(staging, len(table.features), will_be_sorted=job.sort)
        return None
