"""The loss of links: binary cross-entropy of events against their negatives."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def split_logits(logits: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return logits of the events, and of all that they are scored against: (B), (B·C)."""
    first, *others = logits
    negative = [first[:, 1:].flatten(), *(block.flatten() for block in others)]
    return first[:, 0], joined(negative)


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Return the parts one after another; a single one is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def links_loss(positive: Tensor, negative: Tensor) -> Tensor:
    """Return the loss, summed over links."""
    logits = torch.cat([positive, negative])
    labels = torch.zeros_like(logits)
    labels[: len(positive)] = 1
    return F.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
