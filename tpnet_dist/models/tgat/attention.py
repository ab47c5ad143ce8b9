"""TGAT's attention of a node over its interactions, without a key or a value for each of them.

Query and key of a head meet in one number, q·(W k) = (Wᵀ q)·k, and values are summed before they are
projected, Σ a (W k) = W Σ a k. So the two projections are applied to each node instead of to each of its M
neighbours, on which only inner products of width K are left. That is the released code's result but for
rounding.

T nodes have M neighbours each, of which keys say what is known; h are heads, d the width of one.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tpnet_dist.models.common.dropout import Dropout
from tpnet_dist.models.common.linear import linear
from tpnet_dist.models.common.precision import at_least_float32

MASKED = -1e10
"""The score of empty slots in the released code: where all slots are empty, none is left out."""


class TemporalAttention(nn.Module):
    """Multi-head attention, residual connection and norm."""

    def __init__(self, query_width: int, key_width: int, width: int, heads: int) -> None:
        """`width`: the width of queries with their padding, and of what comes out; `query_width`: without
        it."""
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(query_width, width, bias=False)
        self.key = nn.Linear(key_width, width, bias=False)
        self.value = nn.Linear(key_width, width, bias=False)
        self.output = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(
        self,
        query_TI: Tensor,
        residual_TO: Tensor,
        keys_TMF: Sequence[Tensor],
        mask_TM: Tensor,
        dropout: Dropout,
        *,
        skips_nobody: bool,
    ) -> Tensor:
        """Return what attention gives, (T, O). Keys are in parts side by side; one query and residual may
        serve all nodes."""
        weights_TMh = self._weights(query_TI, keys_TMF, mask_TM)
        if skips_nobody:
            weights_TMh = weights_TMh * mask_TM.any(1)[:, None, None]
        keep_TMh = dropout.kept(weights_TMh, tuple(weights_TMh.shape))
        weights_TMh = weights_TMh if keep_TMh is None else weights_TMh * keep_TMh
        pooled_ThK = torch.cat([torch.bmm(weights_TMh.mT.to(part.dtype), part) for part in keys_TMF], 2)
        value_hKd = self._by_head(self.value).mT * dropout.scale
        attended_TO = torch.bmm(pooled_ThK.transpose(0, 1), value_hKd).transpose(0, 1).flatten(1)
        output = self.output
        given_TO = linear(attended_TO, output.weight * dropout.scale, output.bias * dropout.scale)
        total_TO = dropout.add(residual_TO.expand_as(given_TO), given_TO)
        norm = self.norm
        return F.layer_norm(
            at_least_float32(total_TO),
            norm.normalized_shape,
            at_least_float32(norm.weight),
            at_least_float32(norm.bias),
            norm.eps,
        )

    def _weights(self, query_TI: Tensor, keys_TMF: Sequence[Tensor], mask_TM: Tensor) -> Tensor:
        """Return the share that each head takes of each neighbour: (T, M, h)."""
        query_hTd: Tensor = self.query(query_TI).unflatten(1, (self.heads, -1)).transpose(0, 1)
        asked_hTK = torch.bmm(query_hTd, self._by_head(self.key).to(query_hTd.dtype))
        asked_TKh = asked_hTK.permute(1, 2, 0).expand(len(mask_TM), -1, -1)
        parts_TFh = asked_TKh.split_with_sizes([part.shape[2] for part in keys_TMF], dim=1)
        scores_TMh = torch.stack(
            [torch.bmm(part, asked.to(part.dtype)) for part, asked in zip(keys_TMF, parts_TFh, strict=True)]
        ).sum(0)
        scores_TMh = at_least_float32(scores_TMh) * query_hTd.shape[2] ** -0.5
        return torch.softmax(scores_TMh.masked_fill(~mask_TM[..., None], MASKED), 1)

    def _by_head(self, layer: nn.Linear) -> Tensor:
        """Return the weights of a projection: (h, d, K)."""
        outputs, inputs = layer.weight.shape
        return layer.weight.view(self.heads, outputs // self.heads, inputs)
