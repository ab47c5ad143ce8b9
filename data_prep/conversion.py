"""What a conversion is to do, apart from how it is done and shown."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data_prep.layout import Layout
from data_prep.values import TimeUnit
from tpnet_dist.events.shards import EVENTS_PER_SHARD


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """Everything that decides what the data folder holds."""

    inputs: tuple[Path, ...]
    layout: Layout
    edge_matrix: Path | None = None
    """A `.npy` with edge features; the layout's `feature_row` column points into it."""
    node_matrix: Path | None = None
    """A `.npy` with node features; its row is the raw id."""
    bipartite: bool = False
    time_unit: TimeUnit = "s"
    time_step: float | None = None
    sort: bool = False
    events_per_shard: int = EVENTS_PER_SHARD
    source: dict[str, Any] = field(default_factory=dict)
    """What the manifest tells people about where the log came from."""

    def options(self) -> list[object]:
        """What besides the input's content changes the output."""
        return [self.bipartite, self.time_unit, self.time_step, self.sort, self.events_per_shard]
