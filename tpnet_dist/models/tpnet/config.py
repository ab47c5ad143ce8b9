"""Settings of TPNet itself; those of its memory are under [memory]."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from tpnet_dist.config.schema import MAX_LAYERS, MAX_SIZE, ModelConfig


@dataclass(frozen=True, kw_only=True)
class TPNetConfig(ModelConfig):
    """TPNet: pair features from rows of the memory, an MLP-Mixer over recent neighbours."""

    title: ClassVar[str] = "TPNet"

    name: str = "tpnet"
    """The name of the model."""
    profile: Literal["paper", "published"] = "published"
    """The rules where text and released code differ: paper masks empty neighbour slots and reads rows at the
    time of the query, published does neither."""
    neighbors: int = 20
    """Recent interactions of each end, m."""
    sampling: Literal["recent", "uniform"] = "recent"
    """The rule that chooses interactions: the latest, or drawn from all earlier ones."""
    dropout: float = 0.1
    """Rate within the mixer."""
    scale: bool = True
    """False: pair features without ReLU and logarithm (the paper's "w/o Scale")."""
    cross_timescales: bool = False
    """True: with several timescales, pair features take products between layers of different ones too."""
    time_width: int = 100
    """Width of the time encoding."""
    channels: int = 172
    """Width of tokens and embeddings."""
    mixer_layers: int = 2
    """MLP-Mixer layers."""

    def __post_init__(self) -> None:
        self.require_within(2, MAX_SIZE, "neighbors")
        self.require_within(0, 0.9, "dropout")
        self.require_within(1, MAX_SIZE, "time_width", "channels")
        self.require_within(1, MAX_LAYERS, "mixer_layers")


CONFIG = TPNetConfig
