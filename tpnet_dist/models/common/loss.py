"""The loss of links: binary cross-entropy of events against their negatives."""

import torch
import torch.nn.functional as F
from torch import Tensor


def split_logits(logits: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return logits of the events, and of all that they are scored against: (B), (B·C)."""
    first, *others = logits
    negative = [first[:, 1:].flatten(), *(block.flatten() for block in others)]
    return first[:, 0], torch.cat(negative)


def links_loss(positive: Tensor, negative: Tensor) -> Tensor:
    """Summed over links."""
    logits = torch.cat([positive, negative])
    labels = torch.cat([torch.ones_like(positive), torch.zeros_like(negative)])
    return F.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
