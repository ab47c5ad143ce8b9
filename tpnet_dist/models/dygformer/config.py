"""Settings of DyGFormer."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from tpnet_dist.config.schema import MAX_LAYERS, MAX_SIZE, ModelConfig


@dataclass(frozen=True, kw_only=True)
class DyGFormerConfig(ModelConfig):
    """DyGFormer: a transformer over patches of both ends' latest interactions; needs no memory, so [memory]
    has no effect."""

    title: ClassVar[str] = "DyGFormer"

    name: str = "dygformer"
    """The name of the model."""
    profile: Literal["published", "corrected"] = "published"
    """published: as the released code computes it, where sequences are filled up to the longest of their
    batch, what fills them up takes part like interactions, and times are rounded to float32; corrected: it
    takes no part, so that a link's score depends on its own ends alone, and times are exact."""
    sequence_length: int = 32
    """The longest sequence of an end: itself and its latest interactions."""
    patch_size: int = 1
    """So many of a sequence make one token; sequence_length is a multiple of it."""
    dropout: float = 0.1
    """Rate within the transformer."""
    time_width: int = 100
    """Width of the time encoding."""
    part_channels: int = 50
    """Width of each of the four parts of a token: node features, edge features, times, co-occurrence."""
    channels: int = 172
    """Width of embeddings, and of features with their padding."""
    layers: int = 2
    """Transformer layers."""
    heads: int = 2
    """Attention heads; they share 4 · part_channels evenly."""

    def __post_init__(self) -> None:
        self.require_within(0, 0.9, "dropout")
        self.require_within(1, MAX_SIZE, "patch_size", "time_width", "part_channels", "channels")
        self.require_within(2, MAX_SIZE, "sequence_length")
        nearest = max(1, round(self.sequence_length / self.patch_size)) * self.patch_size
        self.require(
            self.sequence_length % self.patch_size == 0,
            "sequence_length",
            f"a multiple of model.patch_size ({self.patch_size})",
            f"{nearest} is the nearest",
        )
        self.require_within(1, MAX_LAYERS, "layers")
        width = 4 * self.part_channels
        self.require(
            1 <= self.heads <= width and width % self.heads == 0,
            "heads",
            f"a divisor of 4 · model.part_channels ({width})",
        )


CONFIG = DyGFormerConfig
