"""The embeddings that logits of links are computed from, where an end is seen differently in each of its
links."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class LinkEmbeddings:
    """The embeddings of the source and of the destination of each link."""

    source_BCK: Tensor
    target_BCK: Tensor
