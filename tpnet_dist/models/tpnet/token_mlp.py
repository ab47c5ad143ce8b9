"""The MLP that makes a neighbour's token of what is known of the neighbour.

The inputs are, in this order, the neighbour's node feature, the time encoding and the edge feature (together
the slot's own inputs, features of width zero if there are none), then f(neighbour, source) and f(neighbour,
destination). A neighbour of the source gets one token per destination; all inputs but the last are the same
for all of them, so their share of the first layer is computed once.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tpnet_dist.models.common.host_forms import serves_host
from tpnet_dist.models.common.linear import AlignedLinear, draw_for
from tpnet_dist.models.tpnet.pair_features import PairValues


class TokenMLP(nn.Module):
    """Linear → ReLU → linear."""

    def __init__(self, own_width: int, pair_width: int, channels: int, *, fan_in: int) -> None:
        """`pair_width`: 0 without pair features. `fan_in`: the number of inputs initial weights are for."""
        super().__init__()
        self._shared_width = own_width + pair_width
        self.first = nn.Linear(own_width + 2 * pair_width, 2 * channels)
        self.second = AlignedLinear(2 * channels, channels)
        draw_for(self.first, fan_in)

    def forward(
        self, source_JF: list[Tensor], target_YF: list[Tensor], pairs: PairValues | None, num_targets: int
    ) -> Tensor:
        """Make tokens; own inputs come in parts. There are J·C tokens, a slot's C together, then Y, then a
        zero: (…, K)."""
        weight, bias = self.first.weight, self.first.bias
        if pairs is None:
            shared_JH = self.first(torch.cat(source_JF, 1))
            source_JCH = shared_JH[:, None].repeat(1, num_targets, 1)
            target_YH = self.first(torch.cat(target_YF, 1))
        else:
            widths = [self._shared_width, weight.shape[1] - self._shared_width]
            shared_weight, target_weight = weight.split_with_sizes(widths, 1)
            shared_JH = F.linear(torch.cat([*source_JF, pairs.sources_JP], 1), shared_weight, bias)
            source_JCH = F.linear(pairs.sources_JCP, target_weight).add_(shared_JH[:, None])
            target_YH = self.first(torch.cat([*target_YF, pairs.targets_Y2P.flatten(1)], 1))
        if not serves_host(target_YH):
            hidden_TH = torch.cat([source_JCH.flatten(0, 1), target_YH])
            tokens_TK: Tensor = self.second(F.relu_(hidden_TH))
            return F.pad(tokens_TK, (0, 0, 0, 1))
        source_JCK, target_YK = self.second(F.relu_(source_JCH)), self.second(F.relu_(target_YH))
        return torch.cat([source_JCK.flatten(0, 1), target_YK, target_YK.new_zeros(1, target_YK.shape[1])])
