"""Settings of TGAT."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from tpnet_dist.config.schema import MAX_SIZE, ModelConfig

_MAX_DEPTH = 3
"""Each layer asks for M times as many neighbours as the one before."""


@dataclass(frozen=True, kw_only=True)
class TGATConfig(ModelConfig):
    """TGAT: attention over interactions and over those of the neighbours; needs no memory, so [memory] has no
    effect."""

    title: ClassVar[str] = "TGAT"

    name: str = "tgat"
    """The name of the model."""
    profile: Literal["published", "corrected"] = "published"
    """published: as the released code computes it, where a node that met nobody attends to empty slots, whose
    time encoding tells the absolute time; corrected: it attends to nothing."""
    neighbors: int = 20
    """Interactions of each end, and of each neighbour."""
    sampling: Literal["recent", "uniform"] = "recent"
    """The rule that chooses interactions: the latest, or drawn from all earlier ones."""
    dropout: float = 0.1
    """Rate on attention and on what it gives."""
    time_width: int = 100
    """Width of the time encoding."""
    channels: int = 172
    """Width of embeddings, and of features with their padding."""
    layers: int = 2
    """Layers of attention; with two, neighbours of neighbours count."""
    heads: int = 2
    """The number of heads of attention; they share channels + time_width evenly."""

    def __post_init__(self) -> None:
        self.require_within(1, MAX_SIZE, "neighbors", "time_width", "channels")
        self.require_within(0, 0.9, "dropout")
        self.require_within(1, _MAX_DEPTH, "layers")
        width = self.channels + self.time_width
        self.require(
            1 <= self.heads <= width and width % self.heads == 0,
            "heads",
            f"a divisor of channels + time_width, {width}",
        )


CONFIG = TGATConfig
