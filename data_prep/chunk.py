"""Consecutive rows of a source on their way through the first pass."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from data_prep.layout import Roles
from data_prep.raw_features import FeatureReading
from data_prep.times import TimeForm
from data_prep.values import TimeRule
from tpnet_dist.events.preparation import SourceRecord, TextForm, TimeUnit
from tpnet_dist.events.shards import Times


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Consecutive rows of one source; ids still as written."""

    first_row: int
    bytes_read: int
    """The bytes of the source on disk that have been read so far."""
    src: pa.Array
    dst: pa.Array
    time: Times
    label: npt.NDArray[np.float32] | None
    features: npt.NDArray[np.float32] | None
    feature_row: npt.NDArray[np.int64] | None
    has_parsed_ids: bool = False
    """Ids are numbers, or text without blanks around it."""

    def __len__(self) -> int:
        return len(self.time)


class ChunkRejected(Exception):
    """Some row from `first_row` on breaks a rule."""

    def __init__(self, first_row: int) -> None:
        self.first_row = first_row


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules that rows must keep to besides their own form."""

    time: TimeRule
    features: FeatureReading
    must_be_sorted: bool
    num_feature_rows: int | None
    missing: Sequence[str]
    """What no id is, such as NA."""
    whole_ids: bool = False
    """Ids are whole numbers, as all are of the log that is appended to."""


class Source(Protocol):
    """Rows of named columns, in order, from one place: a file, an object in a bucket, a table in memory."""

    name: str
    """The name that the user calls it by."""
    roles: Roles
    num_bytes: int
    """The size that the display measures progress against."""

    @property
    def time_unit(self) -> TimeUnit | None:
        """The unit that the time column's type tells; None for numbers and text."""
        ...

    @property
    def form(self) -> TextForm | None:
        """The form of delimited text; None for other sources."""
        ...

    @property
    def feature_names(self) -> list[str]:
        """The name of each value that an event has."""
        ...

    @property
    def id_kinds(self) -> str | None:
        """Whether ids are text or whole numbers, where types say it."""
        ...

    def sample(self) -> list[pa.Array]:
        """Return the first rows, column by column; text where the source has text."""
        ...

    def chunks(self, rules: Rules) -> Iterator[Chunk]:
        """Yield all rows in order; `ChunkRejected` where one breaks a rule of its own form."""
        ...

    def explain(self, rules: Rules, from_row: int, before: TimeForm) -> NoReturn:
        """Raise the sentence about the first row that breaks a rule. `before`: the times so far."""
        ...

    def about(self) -> str:
        """Return a few words on what the source is."""
        ...

    def record(self) -> SourceRecord | None:
        """Return what the manifest keeps of the source, once all has been read; None if it is no file.
        Refuses a file that was changed meanwhile."""
        ...
