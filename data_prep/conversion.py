"""What a conversion is to do, apart from how it is done and shown."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from data_prep.layout import Layout
from data_prep.places import without_secret
from data_prep.raw_features import FeatureOptions
from data_prep.table_readers import TableReader
from data_prep.values import TimeRule
from tpnet_dist.errors import InputError
from tpnet_dist.events.feature_rules import MISSING_SPELLINGS
from tpnet_dist.events.preparation import TimeUnit
from tpnet_dist.events.shards import EVENTS_PER_SHARD


@dataclass(frozen=True, kw_only=True)
class NodeTable:
    """A table of node features."""

    source: str
    node_id: str
    columns: tuple[str, ...] = ()
    """The columns of features; none named: all but the id."""
    table: TableReader | None = None
    """Node features in memory, in place of the source."""


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """Everything that decides what the data folder holds."""

    inputs: tuple[str, ...]
    """Paths, folders, globs, URLs, or - for standard input."""
    layout: Layout
    edge_matrix: Path | None = None
    """A `.npy` with edge features; the layout's `feature_row` column points into it."""
    node_matrix: Path | None = None
    """A `.npy` with node features; its row is the raw id."""
    bipartite: bool = False
    one_id_space: bool = False
    """Whether the user said that there is one id space."""
    time_unit: TimeUnit | None = None
    """The unit of times; None: seconds, or what a typed column says itself."""
    time_format: str | None = None
    time_step: float | None = None
    sort: bool = False
    dedupe: bool = False
    """Drop events that say the same as an earlier one."""
    features: FeatureOptions = field(default_factory=FeatureOptions)
    node_table: NodeTable | None = None
    accept_doubts: bool = False
    missing: Sequence[str] = MISSING_SPELLINGS
    """What no id is, such as NA."""
    events_per_shard: int = EVENTS_PER_SHARD
    source: dict[str, object] = field(default_factory=dict)
    """Notes in the manifest, for people, on where the log came from."""

    @property
    def inputs_name(self) -> str:
        if not self.inputs:
            return "the table"
        first = without_secret(self.inputs[0])
        return first if len(self.inputs) == 1 else f"{first} and {len(self.inputs) - 1} more"

    def time_rule(self, own_unit: TimeUnit | None) -> TimeRule:
        """Return the rule of times. `own_unit`: what a typed time column says of itself, such as iso for
        timestamps."""
        if self.time_unit not in (None, own_unit) and own_unit is not None and not self.layout.is_kept:
            what = "dates" if own_unit == "iso" else f"durations in {own_unit}"
            raise InputError(
                f"--time-unit {self.time_unit}: the time column of {self.inputs_name} holds {what}, which "
                "say themselves what they count; leave it away"
            )
        unit = own_unit or self.time_unit or ("iso" if self.time_format else "s")
        comma, is_kept = self.layout.decimal_comma, self.layout.is_kept
        return TimeRule(unit=unit, format=self.time_format, decimal_comma=comma, is_kept=is_kept)
