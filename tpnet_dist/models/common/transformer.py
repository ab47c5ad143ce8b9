"""Transformer blocks: attention and a feed-forward layer, each added to its input, with norms around them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tpnet_dist.models.common.attention import Attention
from tpnet_dist.models.common.dropout import Dropout
from tpnet_dist.models.common.feed_forward import Activation, feed_forward
from tpnet_dist.models.common.linear import AlignedLinear, linear
from tpnet_dist.models.common.precision import at_least_float32, in_product_type


class TransformerBlock(nn.Module):
    """The weights of a block; those who inherit say where its norms are.

    What dropout keeps is not scaled: the layer that takes it, and the one that made it, are.
    """

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.attention = Attention(channels, heads)
        self.first = AlignedLinear(channels, 4 * channels)
        self.second = AlignedLinear(4 * channels, channels)
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(2))

    def _after_attention(self, attended_K: Tensor, dropout: Dropout) -> Tensor:
        output, scale = self.attention.output, dropout.scale
        return linear(attended_K, output.weight * scale**2, output.bias * scale)

    def _fed_forward(self, x_K: Tensor, dropout: Dropout, activation: Activation) -> Tensor:
        first, second, scale = self.first, self.second, dropout.scale
        [x_K] = in_product_type(x_K)  # what is dropped is of the type of products
        return feed_forward(
            x_K,
            (first.weight, first.bias),
            (second.weight * scale**2, second.bias * scale),
            dropout.dropped(x_K, first.out_features),
            activation,
        )

    def _normal(self, number: int, x_K: Tensor) -> Tensor:
        norm = self.norms[number]
        assert isinstance(norm, nn.LayerNorm)
        weight, bias = at_least_float32(norm.weight), at_least_float32(norm.bias)
        return F.layer_norm(at_least_float32(x_K), norm.normalized_shape, weight, bias, norm.eps)


class PostNormBlock(TransformerBlock):
    """Norms after the sums, ReLU between the feed-forward layers."""

    def forward(self, x_ZMK: Tensor, bias_ZM: Tensor | None, dropout: Dropout) -> Tensor:
        """Let tokens of a sequence attend to one another."""
        query_ZMK, key_ZMK, value_ZMK = self.attention.inputs(x_ZMK).chunk(3, -1)
        attended_ZMK = self.attention.attend(query_ZMK, key_ZMK, value_ZMK, bias_ZM, dropout)
        return self.added(x_ZMK, attended_ZMK, dropout)

    def added(self, x_ZQK: Tensor, attended_ZQK: Tensor, dropout: Dropout) -> Tensor:
        """Return what becomes of tokens with what they attended to."""
        mixed_ZQK = self._normal(0, dropout.add(x_ZQK, self._after_attention(attended_ZQK, dropout)))
        fed_ZQK = self._fed_forward(mixed_ZQK, dropout, "relu")
        return self._normal(1, dropout.add(mixed_ZQK, fed_ZQK))

    def projected(self, x_ZMK: Tensor, *, queries: bool) -> Tensor:
        """Return queries of tokens, (…, K); else keys and values, (…, 2K)."""
        inputs = self.attention.inputs
        channels = inputs.in_features
        rows = slice(0, channels) if queries else slice(channels, None)
        return linear(x_ZMK, inputs.weight[rows], inputs.bias[rows])


class PreNormBlock(TransformerBlock):
    """Norms before attention and before the feed-forward layers, GELU between these."""

    def forward(self, x_ZMK: Tensor, bias_ZM: Tensor | None, dropout: Dropout) -> Tensor:
        """Tokens of a sequence attend to one another."""
        mixed_ZMK = self._attended(x_ZMK, bias_ZM, dropout)
        return dropout.add(mixed_ZMK, self._fed_forward(self._normal(1, mixed_ZMK), dropout, "gelu"))

    def pooled(self, x_ZMK: Tensor, bias_ZM: Tensor | None, share_ZQM: Tensor, dropout: Dropout) -> Tensor:
        """Means of the tokens by their shares, which add up to 1: (Z, Q, K). Where nothing is dropped, the
        last layer comes after the mean, on fewer."""
        if not dropout.keeps_all:
            return torch.bmm(share_ZQM, self(x_ZMK, bias_ZM, dropout))
        mixed_ZMK = self._attended(x_ZMK, bias_ZM, dropout)
        hidden_ZMH = F.gelu(self.first(self._normal(1, mixed_ZMK)))
        mixed_ZQK, hidden_ZQH = torch.bmm(share_ZQM, mixed_ZMK), torch.bmm(share_ZQM, hidden_ZMH)
        pooled_ZQK: Tensor = mixed_ZQK + self.second(hidden_ZQH)
        return pooled_ZQK

    def _attended(self, x_ZMK: Tensor, bias_ZM: Tensor | None, dropout: Dropout) -> Tensor:
        query_ZMK, key_ZMK, value_ZMK = self.attention.inputs(self._normal(0, x_ZMK)).chunk(3, -1)
        attended_ZMK = self.attention.attend(query_ZMK, key_ZMK, value_ZMK, bias_ZM, dropout)
        return dropout.add(x_ZMK, self._after_attention(attended_ZMK, dropout))
