"""`python -m data_prep convert`: its flags, and how they and a preset become a `Conversion`."""

import csv
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from data_prep.closing_line import say_done
from data_prep.conversion import Conversion, NodeTable
from data_prep.layout import Layout
from data_prep.pipeline import convert
from data_prep.places import inputs_and_folder, without_secret
from data_prep.presets import PRESETS, FormatName, find_companions
from data_prep.raw_features import FeatureOptions
from tpnet_dist.config.whole_numbers import Count
from tpnet_dist.errors import InputError
from tpnet_dist.events.feature_rules import MISSING_SPELLINGS
from tpnet_dist.events.preparation import TimeUnit
from tpnet_dist.events.shards import EVENTS_PER_SHARD
from tpnet_dist.files.progress import display_for
from tpnet_dist.files.user_paths import resolved

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


@dataclass(kw_only=True)
class Convert:
    """Turn raw event files into a data folder of Parquet shards.

    Columns are given by header name or by position from 0; without flags, usual names are recognised
    (src/source/u/user_id …, dst/target/i/item_id …, time/timestamp/ts …). What was understood is said before
    anything is written; what is implausible is refused.

    Example: python -m data_prep convert events.csv data/mine --src user --dst item --time when
    """

    paths: Positional[tuple[str, ...]]
    """The inputs, in time order, then the output folder. An input is a file, a folder, a glob, a URL (s3://,
    gs://, file://), or - for standard input."""
    format: FormatName = "csv"
    """csv: any delimited text; jodie: user,item,time,label,features…; dyglib: ml_X.csv with ml_X.npy and
    ml_X_node.npy beside it; snap: "src dst time" lines; tgb: edge-list CSV with a header."""
    src: str | None = None
    """Source column."""
    dst: str | None = None
    """Destination column."""
    time: str | None = None
    """Time column."""
    label: str | None = None
    """Label column, if wanted; without it labels are stored as 0."""
    features: str | None = None
    """Edge feature columns, comma separated; "4:" means all columns from position 4 on."""
    delimiter: str | None = None
    """Field separator, one character or "tab"; by default found from the first lines."""
    header: Literal["auto", "yes", "no"] = "auto"
    """Whether the first line names the columns; auto looks at it."""
    comment: str | None = None
    """Skip lines that begin with this, such as #."""
    decimal_comma: bool = False
    """Numbers are written 0,5."""
    time_unit: TimeUnit | None = None
    """What the times count, by default seconds, or iso for dates such as 2024-01-31T12:00:00Z (no zone means
    UTC). Columns of timestamps say it themselves."""
    time_format: str | None = None
    """How dates are written that are not ISO 8601, such as "%d/%m/%Y %H:%M:%S.%f"."""
    time_step: float | None = None
    """Replace each distinct time by its rank times this many seconds (the paper: yearly data)."""
    bipartite: bool = False
    """Source and destination ids are two id spaces: source 7 and destination 7 are two nodes."""
    one_id_space: bool = False
    """Source 7 and destination 7 are one node, whatever the columns are called."""
    fill: Literal["0", "mean"] | None = None
    """Put 0 or the column's mean in place of missing features; without it, they are refused."""
    one_hot: str | None = None
    """Columns of categories among the features, comma separated: each category becomes a value of 0 or 1."""
    standardize: bool = False
    """Shift and scale each feature to mean 0 and deviation 1."""
    dedupe: Literal["exact"] | None = None
    """Drop events that repeat an earlier one in source, destination, time, label and features."""
    node_features: str | None = None
    """A table of node features: a file or URL of any kind that events may have."""
    node_id: str | None = None
    """Its column of node ids."""
    node_columns: str | None = None
    """Its columns of features, comma separated; by default all others."""
    sort: bool = False
    """Sort by time, stably and out of core; without it, unsorted input is an error."""
    shard_events: Count = EVENTS_PER_SHARD
    """Events per Parquet shard."""
    overwrite: bool = False
    """Replace an existing data folder once the new one is complete."""
    dry_run: bool = False
    """Say what is understood of the inputs, and write nothing."""
    yes: bool = False
    """Take implausible times, units, columns and ids as they are, instead of refusing them."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> None:
        started = time.monotonic()
        inputs, out = inputs_and_folder(self.paths, "output folder")
        if _URL.match(out):
            raise InputError(f"{without_secret(out)}: a data folder is made on a local disk; give a path")
        out_dir = Path(out)
        job, display = self.job(inputs, out_dir), display_for(rank=0)
        manifest = convert(job, out_dir, overwrite=self.overwrite, display=display, dry_run=self.dry_run)
        if manifest is None:
            print(f"{out_dir}: nothing is written, because of --dry-run")
        else:
            say_done(manifest, out_dir, time.monotonic() - started)

    def job(self, inputs: list[str], out_dir: Path) -> Conversion:
        _refuse_input_in_output(inputs, out_dir)
        preset = PRESETS[self.format]
        edge_matrix = node_matrix = None
        if preset.has_companions:
            if len(inputs) > 1:
                raise InputError(f"{len(inputs)} inputs: --format {self.format} takes one ml_NAME.csv")
            edge_matrix, node_matrix = find_companions(Path(inputs[0]))
        if edge_matrix is not None and self.features is not None:
            raise InputError(f"--features {self.features}: {edge_matrix} has features already; use one")
        if self.shard_events < 1:
            raise InputError(f"--shard-events {self.shard_events}: a shard holds 1 event or more; raise it")
        if self.time_step is not None and not 0 < self.time_step < float("inf"):
            raise InputError(f"--time-step {self.time_step}: must be a positive number of seconds; give one")
        if self.bipartite and self.one_id_space:
            raise InputError("--bipartite and --one-id-space exclude each other; give one of them")
        if self.time_format is not None and self.time_unit not in (None, "iso"):
            raise InputError(
                f"--time-format is for dates and --time-unit {self.time_unit} for numbers; give one"
            )
        return Conversion(
            inputs=tuple(inputs),
            layout=self._layout(preset.layout, has_matrix=edge_matrix is not None),
            edge_matrix=edge_matrix,
            node_matrix=node_matrix,
            bipartite=self.bipartite or preset.bipartite,
            one_id_space=self.one_id_space or self.format == "dyglib",
            time_unit=self.time_unit,
            time_format=self.time_format,
            time_step=self.time_step,
            sort=self.sort,
            dedupe=self.dedupe is not None,
            features=FeatureOptions(
                fill=self.fill, one_hot=_listed(self.one_hot), standardize=self.standardize
            ),
            node_table=self._node_table(),
            accept_doubts=self.yes,
            missing=("",) if self.yes else MISSING_SPELLINGS,
            events_per_shard=self.shard_events,
            source={
                "command": "convert",
                "format": self.format,
                "inputs": [Path(without_secret(given)).name for given in inputs],
            },
        )

    def _node_table(self) -> NodeTable | None:
        if self.node_features is None:
            if self.node_id is not None or self.node_columns is not None:
                raise InputError("--node-id and --node-columns are of --node-features; give it too")
            return None
        if self.node_id is None:
            raise InputError(
                f"--node-features {self.node_features}: the column of ids is not named; say it with --node-id"
            )
        return NodeTable(source=self.node_features, node_id=self.node_id, columns=_listed(self.node_columns))

    def _layout(self, preset: Layout, *, has_matrix: bool) -> Layout:
        """Return the preset, with what the user said on top."""
        said = {
            "src": self.src,
            "dst": self.dst,
            "time": self.time,
            "label": self.label,
            "features": None if self.features is None else _listed(self.features),
            "delimiter": _delimiter(self.delimiter),
            "comment": self.comment,
            "decimal_comma": self.decimal_comma or None,
            "header": {"auto": None, "yes": True, "no": False}[self.header],
        }
        layout = replace(preset, **{key: value for key, value in said.items() if value is not None})  # type: ignore[arg-type]
        return layout if has_matrix else replace(layout, feature_row=None)


def _listed(said: str | None) -> tuple[str, ...]:
    """Names as in a line of CSV: one that holds a comma is in quotes."""
    return () if said is None else tuple(name.strip() for name in next(csv.reader([said]), []))


def _delimiter(said: str | None) -> str | None:
    said = {"tab": "\t", "\\t": "\t"}.get(said or "", said)
    if said is not None and not (len(said) == 1 and said.isascii()):
        raise InputError(f"--delimiter {said!r}: must be one ASCII character, or the word tab; give one")
    return said


def _refuse_input_in_output(inputs: list[str], out_dir: Path) -> None:
    for given in inputs:
        if not _URL.match(given) and resolved(given).is_relative_to(resolved(out_dir)):
            raise InputError(f"{given}: lies in the output folder {out_dir}; choose another output folder")
