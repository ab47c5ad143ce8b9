"""Read every input once: codes for ids, degrees, the form of times. The events go to the spill."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from data_prep.chunk import Chunk, ChunkRejected, Rules, Source
from data_prep.conversion import Conversion
from data_prep.duplicates import without_duplicates
from data_prep.feature_files import ColumnFeatures, EdgeFeatures, MatrixFeatures, Rows, load_matrix
from data_prep.id_map import DESTINATION, SOURCE, Codes, IdMap
from data_prep.log_before import LogBefore
from data_prep.raw_features import FeatureReading
from data_prep.spill import CodedEvents, Spill
from data_prep.times import TimeForm
from data_prep.values import NoEvents, Rejected
from tpnet_dist.errors import InputError
from tpnet_dist.events.features import EDGE_FEATURES_NAME, Features
from tpnet_dist.files.progress import Display
from tpnet_dist.files.read_ahead import read_ahead


class FirstPass:
    """What is known once all inputs have been read."""

    def __init__(
        self, job: Conversion, first: Source, staging: Path, before: LogBefore | None = None
    ) -> None:
        """`before`: the log that is appended to."""
        self.rule, self.name = job.time_rule(first.time_unit), job.inputs_name
        if before is None:
            self.sources = IdMap()
            self.destinations = IdMap() if job.bipartite else self.sources
            self.times = TimeForm(self.rule)
        else:
            self.sources, self.destinations = before.sources, before.destinations
            self.times = before.times(self.rule)
        self.spill = Spill(staging / "spill", sort=job.sort)
        self.events = 0
        self.degrees: Rows | None = None
        """The degrees of all codes, sources first, if they are not those that the maps counted."""
        self._job = job
        self._matrix = load_matrix(job.edge_matrix) if job.edge_matrix else None
        self.reading = FeatureReading(job.features, () if before is None else before.preparation.edge_columns)
        features_name = EDGE_FEATURES_NAME if before is None else before.part_name(EDGE_FEATURES_NAME)
        self.features = self._choose_features(job, first, staging / features_name)
        self._rules = Rules(
            time=self.rule,
            features=self.reading,
            must_be_sorted=not job.sort,
            num_feature_rows=self._matrix.num_rows if self._matrix else None,
            missing=job.missing,
            whole_ids=before is not None and before.has_whole_ids,
        )
        self._may_be_empty = before is not None
        # a digest for each column: they do not depend on how the log is cut into chunks
        self._digests = {name: hashlib.sha256() for name in ("src", "dst", "label", "features", "row")}

    def read(self, sources: Sequence[Source], display: Display) -> None:
        bytes_before = 0
        for source in sources:
            self._read_source(source, display, bytes_before)
            bytes_before += source.num_bytes
        self.spill.close()
        if self.features:
            self.features.settle()
        if self._matrix and self._matrix.num_rows != self.events + 1:
            raise InputError(
                f"{self._matrix.path}: {self._matrix.num_rows:,} rows, but a padding row and {self.events:,} "
                f"events need {self.events + 1:,}; use the file that fits"
            )

    def drop_duplicates(self, staging: Path) -> int:
        """Keep the first of events that say the same; return how many go. Degrees are counted anew."""
        before, spill = self.events, Spill(staging / "deduplicated", sort=False)
        offset = 0 if self.sources is self.destinations else len(self.sources)
        degrees = np.zeros(offset + len(self.destinations), np.int64)
        self.events = 0
        for block in without_duplicates(self.spill.read(lambda times: times), self._raw_features):
            spill.append(block)
            self.events += len(block)
            for codes in (block.src, block.dst + offset):
                degrees += np.bincount(codes, minlength=len(degrees))
        spill.close()
        self.spill.remove()
        self.spill, self.degrees = spill, degrees
        return before - self.events

    def _raw_features(self, rows: Rows) -> Features | None:
        return None if self.features is None else self.features.raw_rows(rows)

    def log_id(self) -> str:
        """Return a name for the content: the same events and options give the same log, byte for byte,
        whatever kind of source they came from."""
        job = self._job
        options: list[object] = [
            job.bipartite,
            self.times.stored_unit,
            job.time_step,
            job.sort,
            job.events_per_shard,
        ]
        options += [] if job.features.is_plain and not job.dedupe else [job.features, job.dedupe]
        content = hashlib.sha256(repr(options).encode())
        for digest in self._digests.values():
            content.update(digest.digest())
        content.update(self.times.final_digest())
        for ids in (self.sources, self.destinations):
            content.update(pa.record_batch([ids.raw], ["raw"]).serialize())
        return content.hexdigest()[:16]

    def _read_source(self, source: Source, display: Display, bytes_before: int) -> None:
        first_row = 0
        try:
            for chunk in read_ahead(source.chunks(self._rules), depth=2):
                first_row = chunk.first_row
                self._take(chunk)
                display.advance(len(chunk), position=bytes_before + chunk.bytes_read)
        except NoEvents:
            if not self._may_be_empty:
                raise
        except ChunkRejected as rejected:
            source.explain(self._rules, rejected.first_row, self.times)
        except Rejected:
            source.explain(self._rules, first_row, self.times)

    def _take(self, chunk: Chunk) -> None:
        if not self.times.accepts(chunk.time, in_order=self._rules.must_be_sorted):
            raise Rejected
        src, dst = self._encode(chunk)
        label = np.zeros(len(chunk), np.float32) if chunk.label is None else chunk.label
        rows = np.zeros(len(chunk), np.int64) if self.features is None else self.features.take(chunk)
        if (limit := self._rules.num_feature_rows) is not None and rows.max() >= limit:
            raise Rejected
        self.times.observe(chunk.time)
        self.times.digest(chunk.time)
        self.spill.append(CodedEvents(src, dst, chunk.time, label, rows))
        self.events += len(chunk)
        columns = {"src": src, "dst": dst, "label": chunk.label, "features": chunk.features}
        for name, column in (*columns.items(), ("row", chunk.feature_row)):
            if column is not None:
                self._digests[name].update(np.ascontiguousarray(column).data)

    def _encode(self, chunk: Chunk) -> list[Codes]:
        """Return the codes of the ids; one look-up serves both columns where they share an id space."""
        parsed, missing = chunk.has_parsed_ids, self._rules.missing
        if self.sources is self.destinations:
            return self.sources.encode([chunk.src, chunk.dst], are_parsed=parsed, missing=missing)
        return [
            *self.sources.encode([chunk.src], SOURCE, are_parsed=parsed, missing=missing),
            *self.destinations.encode([chunk.dst], DESTINATION, are_parsed=parsed, missing=missing),
        ]

    def _choose_features(self, job: Conversion, first: Source, path: Path) -> EdgeFeatures | None:
        """Choose where features come from. `path`: the file that they become."""
        if self._matrix:
            return MatrixFeatures(path, self._matrix)
        if first.roles.features:
            reordered = job.sort or job.dedupe
            return ColumnFeatures(path, first.feature_names, self.reading, will_be_reordered=reordered)
        return None
