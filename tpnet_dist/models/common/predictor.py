"""The predictor: computes logits from what is known of the ends of links."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tpnet_dist.models.common.precision import at_least_float32


class LinkPredictor(nn.Module):
    """Linear → ReLU → linear."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, 1)

    def forward(self, parts: Sequence[Tensor]) -> Tensor:
        """Compute logits of parts side by side: (…, width) → (…)."""
        hidden = at_least_float32(F.relu(self.first(torch.cat(list(parts), -1))))
        # scores that differ by less than bfloat16 can tell are ranked all the same
        with torch.autocast(hidden.device.type, enabled=False):
            weight, bias = at_least_float32(self.second.weight), at_least_float32(self.second.bias)
            logits = F.linear(hidden, weight, bias)
        return logits.squeeze(-1)
