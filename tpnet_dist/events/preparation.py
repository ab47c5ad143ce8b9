"""How rows of the user's files became events: kept in the manifest, so that later files are read alike."""

from dataclasses import dataclass
from typing import Literal

from tpnet_dist.events.feature_rules import FeatureColumn

TimeUnit = Literal["s", "ms", "us", "ns", "iso"]


@dataclass(frozen=True, kw_only=True)
class SourceRecord:
    """A file that was read, as it was then."""

    name: str
    """The name that the user called it by."""
    bytes: int
    sha256: str | None = None
    """The hash of the file; None for what lies elsewhere: reading it again would cost as much as converting
    it."""


@dataclass(frozen=True, kw_only=True)
class TextForm:
    """How delimited text is written."""

    delimiter: str
    has_header: bool
    comment: str | None = None
    decimal_comma: bool = False


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Columns by the user's names (positions where the files name none), and what was done with them."""

    columns: tuple[str, ...]
    """All columns that the files have, in their order."""
    src: str
    dst: str
    time: str
    label: str | None = None
    features: tuple[str, ...] = ()
    """Columns of edge features, in order."""
    feature_names: tuple[str, ...] = ()
    """The name of each value that an event has; a column of lists has several."""
    time_unit: TimeUnit = "s"
    """The unit that numbers count, or iso for dates."""
    time_format: str | None = None
    """The format of dates, if it is not ISO 8601."""
    text: TextForm | None = None
    """The form of the first file; None if it is no delimited text."""
    edge_columns: tuple[FeatureColumn, ...] = ()
    """What was made of each feature column, or value of one of lists; none if values are as they were."""
    node_columns: tuple[FeatureColumn, ...] = ()
    node_id: str | None = None
    """The id column of the table of node features."""
    sources: tuple[SourceRecord, ...] = ()
    last_time: float | None = None
    """The time of the last event as it was read, where ranks took the place of times; dates in
    nanoseconds."""
    options: dict[str, object]
    """The other flags that decide what the folder holds."""

    @property
    def is_by_position(self) -> bool:
        """Whether files named no columns."""
        return self.columns == tuple(str(place) for place in range(len(self.columns)))

    @property
    def unused(self) -> list[str]:
        used = {self.src, self.dst, self.time, self.label, *self.features}
        return [name for name in self.columns if name not in used]
