"""Settings of TCL."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from tpnet_dist.config.schema import MAX_LAYERS, MAX_SIZE, ModelConfig


@dataclass(frozen=True, kw_only=True)
class TCLConfig(ModelConfig):
    """TCL: transformers over the interactions of both ends that attend to one another; no memory."""

    title: ClassVar[str] = "TCL"

    name: str = "tcl"
    """The name of the model."""
    profile: Literal["published", "corrected"] = "published"
    """The place of a sequence's empty slots: published leaves them between a node and its interactions, whose
    places then depend on how many slots there are; corrected has them last."""
    neighbors: int = 20
    """Recent interactions of each end."""
    sampling: Literal["recent", "uniform"] = "recent"
    """The rule that chooses interactions: the latest, or drawn from all earlier ones."""
    dropout: float = 0.1
    """Rate within the transformers."""
    time_width: int = 100
    """Width of the time encoding."""
    channels: int = 172
    """Width of tokens and embeddings."""
    layers: int = 2
    """Transformer layers, each of which attends twice."""
    heads: int = 2
    """Attention heads."""

    def __post_init__(self) -> None:
        self.require_within(0, 0.9, "dropout")
        self.require_within(1, MAX_SIZE, "neighbors", "time_width", "channels", "heads")
        self.require_within(1, MAX_LAYERS, "layers")
        self.require(
            self.channels % self.heads == 0, "heads", f"a divisor of model.channels ({self.channels})"
        )


CONFIG = TCLConfig
