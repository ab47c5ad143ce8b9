"""The data folder that events are appended to, as far as these must fit it: ids, times, columns, features."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.chunk import Source
from data_prep.id_map import IdMap
from data_prep.layout import Layout
from data_prep.raw_features import FeatureOptions
from data_prep.times import TimeForm
from data_prep.values import TimeRule, na_ids
from tpnet_dist.errors import InputError
from tpnet_dist.events import EventLog
from tpnet_dist.events.feature_rules import MISSING_SPELLINGS
from tpnet_dist.events.file_records import part_name
from tpnet_dist.events.preparation import Preparation

_TIME_TYPES = {
    "iso": "dates",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}

Dense = npt.NDArray[np.int32]


class LogBefore:
    """Known ids keep their dense ids; new ones follow, sources first where there are two id spaces."""

    def __init__(self, log: EventLog) -> None:
        self.log, self.manifest = log, log.manifest
        self.preparation = _preparation_of(log)
        self.version = len(self.manifest.history)
        """The number of the version that is made."""
        table = log.raw_ids()
        raw = table.column("raw_id").combine_chunks()
        self.has_whole_ids = pa.types.is_integer(raw.type)
        known = na_ids(raw)
        self.missing = [word for word in MISSING_SPELLINGS if word not in known]
        """What no id is, unless the user says so."""
        everybody = np.arange(len(raw), dtype=np.int32)
        if not self.manifest.bipartite:
            self._dense_of_side = {"src": everybody, "dst": everybody}
            self.sources = self.destinations = IdMap.of_log(raw)
            return
        side = table.column("side")
        self._dense_of_side = {each: everybody[pc.equal(side, each).to_numpy()] for each in ("src", "dst")}
        self.sources, self.destinations = (
            IdMap.of_log(raw.take(pa.array(self._dense_of_side[each]))) for each in ("src", "dst")
        )

    @property
    def maps(self) -> list[IdMap]:
        return [self.sources, self.destinations][: 1 + self.manifest.bipartite]

    def option(self, name: str) -> object:
        """Return an option that the log was converted with."""
        return self.preparation.options.get(name)

    def part_name(self, name: str) -> str:
        return part_name(name, self.version)

    def times(self, rule: TimeRule) -> TimeForm:
        """Return the form that the times of later events must have."""
        kept, manifest = self.preparation, self.manifest
        if self.option("time_step") is not None:
            if kept.last_time is None:
                raise InputError(
                    f"{self.log.folder}: has ranks instead of times, and an earlier version that did not "
                    "keep the "
                    "last time made it; convert everything anew"
                )
            return TimeForm(rule, last_time=kept.last_time, log_end=kept.last_time)
        return TimeForm.after(rule, manifest.last_time, manifest.time_dtype, manifest.time_unit)

    def layout(self, header: bool | None) -> Layout:
        """Return the columns that files are to have; `header`: what the user says of the first line."""
        kept, form = self.preparation, self.preparation.text
        by_position = kept.is_by_position
        if header is None and form is not None:
            header = form.has_header
        return Layout(
            src=kept.src,
            dst=kept.dst,
            time=kept.time,
            label=kept.label,
            features=kept.features,
            header=header,
            names_its_columns=not (by_position and bool(header)),
            delimiter=form.delimiter if form else None,
            comment=form.comment if form else None,
            decimal_comma=bool(form and form.decimal_comma),
            is_kept=True,
        )

    def feature_options(self) -> FeatureOptions:
        fill, one_hot = self.option("fill"), self.option("one_hot")
        return FeatureOptions(
            fill=None if fill is None else "0" if fill == "0" else "mean",
            one_hot=tuple(map(str, one_hot)) if isinstance(one_hot, list) else (),
            standardize=bool(self.option("standardize")),
        )

    def require_fits(self, source: Source) -> None:
        """Refuse a source with other columns, ids or features than the log's."""
        kept, roles, folder = self.preparation, source.roles, self.log.folder
        if kept.is_by_position and len(roles.names) != len(kept.columns):
            raise InputError(
                f"{source.name}: has {len(roles.names)} columns where the files of {folder} had "
                f"{len(kept.columns)} without names; give files with the same columns"
            )
        if source.time_unit not in (None, kept.time_unit):
            raise InputError(
                f"{source.name}: times are {_TIME_TYPES[source.time_unit]} where {folder} has "
                f"{_TIME_TYPES[kept.time_unit]}; write them as before, or convert everything anew"
            )
        raw = [column.name for column in kept.edge_columns] or list(kept.feature_names)
        found = source.feature_names
        if len(found) != len(raw) or (roles.has_names and not kept.is_by_position and found != raw):
            raise InputError(
                f"{source.name}: has {len(found)} feature values, {_some(found)}, where {folder} has "
                f"{len(raw)}, "
                f"{_some(raw)}; give the same features, or convert everything anew"
            )
        if source.id_kinds is not None and not self.has_whole_ids and "numbers" in source.id_kinds:
            raise InputError(
                f"{source.name}: ids are {source.id_kinds} where {folder} has text; write them as text, or "
                "convert "
                "everything anew"
            )

    def has_already(self, sources: Sequence[Source]) -> bool:
        """Return whether these very files were appended last: of a run that was killed when it had just done
        so."""
        versions = self.manifest.versions
        kept = versions[-1].sources if versions else ()
        if [source.num_bytes for source in sources] != [record.bytes for record in kept]:
            return False
        records = [source.record() for source in sources]
        return [record and record.sha256 for record in records] == [record.sha256 for record in kept] and all(
            record.sha256 for record in kept
        )

    def dense_ids(self) -> tuple[Dense, Dense]:
        """Return the dense ids of the codes of both columns, known ones and new ones."""
        new_sources = len(self.sources) - self.sources.num_before
        src = self._with_new(self._dense_of_side["src"], self.manifest.nodes, new_sources)
        if not self.manifest.bipartite:
            return src, src
        new = len(self.destinations) - self.destinations.num_before
        return src, self._with_new(self._dense_of_side["dst"], self.manifest.nodes + new_sources, new)

    def new_nodes(self) -> pa.Table:
        """Return the new nodes as `node_ids.parquet` has them, in the order of their dense ids."""
        raw = [pc.cast(ids.raw[ids.num_before :], self._raw_type) for ids in self.maps]
        degree = np.concatenate([ids.degree[ids.num_before :] for ids in self.maps])
        columns = {"raw_id": pa.concat_arrays(raw), "degree": pa.array(degree)}
        if self.manifest.bipartite:
            sides = np.repeat(np.array(["src", "dst"], object), [len(ids) for ids in raw])
            columns["side"] = pa.array(sides, pa.string())
        return pa.table(columns)

    @property
    def _raw_type(self) -> pa.DataType:
        return pa.int64() if self.has_whole_ids else pa.large_string()

    @staticmethod
    def _with_new(known: Dense, first_new: int, count: int) -> Dense:
        return np.concatenate([known, np.arange(first_new, first_new + count, dtype=np.int32)])


def _preparation_of(log: EventLog) -> Preparation:
    kept = log.manifest.preparation
    if kept is None:
        raise InputError(
            f"{log.folder}: does not say which columns its events came from, so later files cannot be read "
            "alike; "
            "convert everything with `python -m data_prep convert`"
        )
    has_matrix = log.manifest.edge_features is not None and not kept.features
    if has_matrix:
        raise InputError(
            f"{log.folder}: its edge features came from a .npy matrix, which grows by no row when events are "
            "appended; convert everything anew"
        )
    return kept


def _some(names: list[str]) -> str:
    return ", ".join(names[:6]) + (", …" if len(names) > 6 else "") if names else "none"
