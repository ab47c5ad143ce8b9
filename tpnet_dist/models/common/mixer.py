"""The MLP-Mixer: mix the tokens of a sequence channel by channel, then the channels token by token.

Tensors are (M, N, K), tokens first. So mixing tokens is one matrix product and its norm a reduction over the
first axis; nothing is ever turned round.

Shape letters: N sequences, P pieces of X values.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from tpnet_dist.models.common.dropout import Dropout
from tpnet_dist.models.common.feed_forward import feed_forward
from tpnet_dist.models.common.linear import AlignedLinear
from tpnet_dist.models.common.precision import at_least_float32, in_product_type

KEPT_PER_CHANNEL = 14
"""Numbers a layer keeps for the backward pass, per channel of every token; 14.7 were counted."""
PIECES = 200
"""Into which long rows are cut, if the number of sequences allows it."""


class TokenMixing(nn.Module):
    """LayerNorm → linear → GELU → dropout → linear → dropout along the tokens, added to the input.

    The norm's weights are folded into the first linear layer.
    """

    def __init__(self, tokens: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(tokens)
        self.first = nn.Linear(tokens, hidden)
        self.second = nn.Linear(hidden, tokens)

    def forward(self, x_MNK: Tensor, dropout: Dropout) -> Tensor:
        norm, first, second = self.norm, self.first, self.second
        normal_MNK: Tensor = _NormalTokens.apply(at_least_float32(x_MNK), norm.eps)  # type: ignore[no-untyped-call]
        bias_H = torch.addmv(first.bias, first.weight, norm.bias)
        hidden_HNK = F.gelu(_along_tokens(normal_MNK, first.weight * norm.weight, bias_H))
        hidden_HNK = dropout.drop_(hidden_HNK)
        mixed_MNK = _along_tokens(hidden_HNK, second.weight * dropout.scale**2, second.bias * dropout.scale)
        return dropout.add(x_MNK, mixed_MNK)


class ChannelMixing(nn.Module):
    """The same along the channels."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.first = AlignedLinear(channels, hidden)
        self.second = AlignedLinear(hidden, channels)

    def forward(self, x_MNK: Tensor, dropout: Dropout) -> Tensor:
        first, second = self.first, self.second
        [normal_MNK] = in_product_type(self._normal(x_MNK))
        mixed_MNK = feed_forward(
            normal_MNK,
            (first.weight, first.bias),
            (second.weight * dropout.scale**2, second.bias * dropout.scale),
            dropout.dropped(normal_MNK, first.out_features),
        )
        return dropout.add(x_MNK, mixed_MNK)

    def pooled(self, x_MNK: Tensor) -> Tensor:
        """The mean over tokens if nothing is dropped: the last layer comes after it, on M times fewer."""
        hidden_MNH = F.gelu(self.first(self._normal(x_MNK)))
        pooled_NK: Tensor = x_MNK.mean(0) + self.second(hidden_MNH.mean(0))
        return pooled_NK

    def _normal(self, x_MNK: Tensor) -> Tensor:
        norm = self.norm
        weight, bias = at_least_float32(norm.weight), at_least_float32(norm.bias)
        return F.layer_norm(at_least_float32(x_MNK), norm.normalized_shape, weight, bias, norm.eps)


class MixerLayer(nn.Module):
    """The paper's layer: half as many hidden tokens, four times as many hidden channels."""

    def __init__(self, tokens: int, channels: int) -> None:
        super().__init__()
        self.tokens = TokenMixing(tokens, tokens // 2)
        self.channels = ChannelMixing(channels, 4 * channels)


class Mixer(nn.Module):
    """Layers one after another, then the mean over the tokens: (M, N, K) → (N, K)."""

    def __init__(self, num_layers: int, tokens: int, channels: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(MixerLayer(tokens, channels) for _ in range(num_layers))

    def forward(self, x_MNK: Tensor, dropout: Dropout) -> Tensor:
        for number, layer in enumerate(self.layers, start=1):
            assert isinstance(layer, MixerLayer)
            x_MNK = layer.tokens(x_MNK, dropout)
            if number == len(self.layers) and dropout.keeps_all:
                return layer.channels.pooled(x_MNK)
            x_MNK = layer.channels(x_MNK, dropout)
        return x_MNK.mean(0)


def _along_tokens(x_MNK: Tensor, weight_HM: Tensor, bias_H: Tensor) -> Tensor:
    out_HNK: Tensor = _AlongTokens.apply(*in_product_type(x_MNK, weight_HM, bias_H))  # type: ignore[no-untyped-call]
    return out_HNK


class _AlongTokens(torch.autograd.Function):
    """A linear layer along the first axis."""

    @staticmethod
    def forward(ctx: FunctionCtx, x_MNK: Tensor, weight_HM: Tensor, bias_H: Tensor) -> Tensor:
        ctx.save_for_backward(x_MNK, weight_HM)
        out = torch.addmm(bias_H[:, None], weight_HM, x_MNK.flatten(1))
        return out.view(len(weight_HM), *x_MNK.shape[1:])

    @staticmethod
    def backward(ctx: FunctionCtx, gradient_HNK: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x_MNK, weight_HM = ctx.saved_tensors  # type: ignore[attr-defined]
        gradient_HT = gradient_HNK.flatten(1)
        to_x_MNK = torch.mm(weight_HM.t(), gradient_HT).view(x_MNK.shape)
        # the fewer rows come first
        if len(gradient_HNK) < len(x_MNK):
            to_weight_HM = _products_of_rows(gradient_HNK, x_MNK)
        else:
            to_weight_HM = (
                _products_of_rows(x_MNK, gradient_HNK).t().clone(memory_format=torch.contiguous_format)
            )
        return to_x_MNK, to_weight_HM, gradient_HT.sum(1)


def _products_of_rows(one_MNK: Tensor, other_HNK: Tensor) -> Tensor:
    """(M, H). In pieces, since one product of long and few rows takes the host three times as long."""
    num_sequences, channels = one_MNK.shape[1:]
    pieces = math.gcd(num_sequences, PIECES)
    size = num_sequences // pieces * channels
    one_PMX = one_MNK.reshape(len(one_MNK), pieces, size).transpose(0, 1)
    other_PXH = other_HNK.reshape(len(other_HNK), pieces, size).permute(1, 2, 0)
    return torch.bmm(one_PMX, other_PXH).sum(0)


class _NormalTokens(torch.autograd.Function):
    """LayerNorm's division along the first axis, without its weights; autograd takes twice as many passes."""

    @staticmethod
    def forward(ctx: FunctionCtx, x_MNK: Tensor, eps: float) -> Tensor:
        normal_MNK = x_MNK - x_MNK.mean(0)
        inverse_NK = torch.rsqrt(normal_MNK.square().mean(0) + eps)
        ctx.save_for_backward(normal_MNK.mul_(inverse_NK), inverse_NK)
        return normal_MNK

    @staticmethod
    def backward(ctx: FunctionCtx, gradient_MNK: Tensor) -> tuple[Tensor, None]:
        normal_MNK, inverse_NK = ctx.saved_tensors  # type: ignore[attr-defined]
        along_NK = (gradient_MNK * normal_MNK).mean(0)
        across_MNK = torch.addcmul(gradient_MNK, normal_MNK, along_NK, value=-1)
        return across_MNK.sub_(gradient_MNK.mean(0)).mul_(inverse_NK), None
