"""Settings of CAWN."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from tpnet_dist.config.schema import MAX_SIZE, ModelConfig

_MAX_LENGTH = 3
_MAX_WALKS = 2**16


@dataclass(frozen=True, kw_only=True)
class CAWNConfig(ModelConfig):
    """CAWN: walks back in time from both ends; needs no memory, so [memory] has no effect."""

    title: ClassVar[str] = "CAWN"

    name: str = "cawn"
    """The name of the model."""
    profile: Literal["published", "corrected"] = "published"
    """published: as the released code computes it, where walks that could not be gone take part like others;
    corrected: they are left out, but for one of an end that met nobody."""
    neighbors: int = 32
    """Interactions that a walk may choose from at each node."""
    walk_length: int = 1
    """Interactions of a walk; an end has neighbors ^ walk_length of them."""
    sampling: Literal["recent", "uniform", "time_interval_aware"] = "time_interval_aware"
    """The rule that chooses interactions: the latest, or drawn from all earlier ones, each as likely as any
    other or more likely after a long pause."""
    interval_scaling: float = 1e-6
    """The scale of time_interval_aware sampling, per second: pauses shorter than its inverse hardly count."""
    dropout: float = 0.1
    """Rate within the attention over walks."""
    time_width: int = 100
    """Width of the time encoding."""
    position_width: int = 172
    """Width of the encoding of how often walks pass."""
    channels: int = 172
    """Width of embeddings, and of node features with their padding."""
    edge_channels: int = 172
    """Width of edge features with their padding; half of a step's width is that of what is learned of it."""
    heads: int = 8
    """The number of heads of the attention over walks."""

    def __post_init__(self) -> None:
        self.require_within(1, MAX_SIZE, "neighbors", "time_width", "channels", "edge_channels")
        self.require_within(2, MAX_SIZE, "position_width")
        self.require_within(1, _MAX_LENGTH, "walk_length")
        walks = self.neighbors**self.walk_length
        self.require(walks <= _MAX_WALKS, "neighbors", f"such that neighbors ^ walk_length <= {_MAX_WALKS:,}")
        self.require(0 < self.interval_scaling <= 1e6, "interval_scaling", "above 0 and at most 1e+06")
        self.require_within(0, 0.9, "dropout")
        self.require(1 <= self.heads <= self.channels, "heads", "within 1…model.channels")


CONFIG = CAWNConfig
