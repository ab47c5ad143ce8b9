"""Settings of GraphMixer."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from tpnet_dist.config.schema import MAX_LAYERS, MAX_SIZE, ModelConfig


@dataclass(frozen=True, kw_only=True)
class GraphMixerConfig(ModelConfig):
    """GraphMixer: an MLP-Mixer over recent interactions; needs no memory, so [memory] has no effect."""

    title: ClassVar[str] = "GraphMixer"

    name: str = "graphmixer"
    """The name of the model."""
    profile: Literal["published", "corrected"] = "published"
    """published: as the released code computes it, where empty slots take part as tokens and in their mean,
    and the mean of further neighbours' features is divided by their number twice; corrected: neither."""
    neighbors: int = 20
    """Recent interactions of each end."""
    sampling: Literal["recent", "uniform"] = "recent"
    """The rule that chooses interactions: the latest, or drawn from all earlier ones."""
    dropout: float = 0.5
    """Rate within the mixer."""
    time_width: int = 100
    """Width of the time encoding."""
    channels: int = 172
    """Width of embeddings, and of features with their padding."""
    token_channels: int | None = None
    """Width of tokens; by default that of embeddings."""
    mixer_layers: int = 2
    """MLP-Mixer layers."""
    time_gap: int = 2000
    """The number of interactions of each end whose nodes' features are averaged; without node features
    none."""

    def __post_init__(self) -> None:
        self.require_within(2, MAX_SIZE, "neighbors")
        self.require_within(0, 0.9, "dropout")
        self.require_within(1, MAX_SIZE, "time_gap", "time_width", "channels")
        self.require_within(1, MAX_LAYERS, "mixer_layers")
        if self.token_channels is not None:
            self.require_within(1, MAX_SIZE, "token_channels")

    @property
    def token_width(self) -> int:
        return self.channels if self.token_channels is None else self.token_channels


CONFIG = GraphMixerConfig
