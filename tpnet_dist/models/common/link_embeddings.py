"""The embeddings that logits of links are computed from, where an end is seen differently in each of its
links."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class LinkEmbeddings:
    """The embeddings of the source and of the destination of each link."""

    source_BCK: Tensor
    target_BCK: Tensor
    pair_features_BCP: Tensor | None = None
    """What is known of both together beside their embeddings."""

    @classmethod
    def of_ends(cls, embedding_BSK: Tensor) -> "LinkEmbeddings":
        """Return those of links from one embedding for each end: the source's, then the destinations'."""
        target_BCK = embedding_BSK[:, 1:]
        return cls(embedding_BSK[:, :1].expand_as(target_BCK), target_BCK)

    @property
    def parts(self) -> list[Tensor]:
        """The parts that the predictor takes side by side."""
        parts = (self.source_BCK, self.target_BCK, self.pair_features_BCP)
        return [part for part in parts if part is not None]
