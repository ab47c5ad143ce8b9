"""The MLP-Mixer: mix the tokens of a sequence channel by channel, then the channels token by token.

Tensors are (M, Z, K), tokens first. So mixing tokens is one matrix product and its norm a reduction over the
first axis; nothing is ever turned round.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from tpnet_dist.models.common.dropout import Dropout, MaskShape
from tpnet_dist.models.common.feed_forward import feed_forward
from tpnet_dist.models.common.host_forms import serves_host
from tpnet_dist.models.common.linear import AlignedLinear, linear
from tpnet_dist.models.common.precision import at_least_float32, in_product_type

_KEPT_PER_CHANNEL = 14
"""Numbers a layer keeps for the backward pass, per channel of every token; 14.7 were counted."""
PIECES = 200
"""The number of pieces that long rows are cut into, if the number of sequences allows it."""


def numbers_kept(layers: int, tokens: int, channels: int) -> int:
    """Return the numbers that a mixer keeps for the backward pass, for each of its sequences."""
    return layers * tokens * channels * _KEPT_PER_CHANNEL


class TokenMixing(nn.Module):
    """LayerNorm → linear → GELU → dropout → linear → dropout along the tokens, added to the input.

    The norm's weights are folded into the first linear layer.
    """

    def __init__(self, tokens: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(tokens)
        self.first = nn.Linear(tokens, hidden)
        self.second = nn.Linear(hidden, tokens)

    def forward(self, x_MZK: Tensor, dropout: Dropout) -> Tensor:
        norm, first, second = self.norm, self.first, self.second
        normal_MZK = _normal_tokens(x_MZK, norm.eps)
        bias_H = torch.addmv(first.bias, first.weight, norm.bias)
        hidden_HZK = F.gelu(_along_tokens(normal_MZK, first.weight * norm.weight, bias_H))
        hidden_HZK = dropout.drop_(hidden_HZK)
        mixed_MZK = _along_tokens(hidden_HZK, second.weight * dropout.scale**2, second.bias * dropout.scale)
        return dropout.add(x_MZK, mixed_MZK)


class ChannelMixing(nn.Module):
    """LayerNorm → linear → GELU → dropout → linear → dropout along the channels, added to the input."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.first = AlignedLinear(channels, hidden)
        self.second = AlignedLinear(hidden, channels)

    def forward(self, x_MZK: Tensor, dropout: Dropout) -> Tensor:
        first, second = self.first, self.second
        scaled = (second.weight * dropout.scale**2, second.bias * dropout.scale)
        [normal_MZK] = in_product_type(self._normal(x_MZK))
        if serves_host(x_MZK):
            dropped = dropout.dropped(normal_MZK, first.out_features)
            mixed_MZK = feed_forward(normal_MZK, (first.weight, first.bias), scaled, dropped)
        else:
            mixed_MZK = linear(dropout.drop_(F.gelu(first(normal_MZK))), *scaled)
        return dropout.add(x_MZK, mixed_MZK)

    def pooled(self, x_MZK: Tensor, share_MZ: Tensor | None) -> Tensor:
        """Return the mean over tokens if nothing is dropped: the last layer comes after it, on M times
        fewer."""
        hidden_MZH = F.gelu(self.first(self._normal(x_MZK)))
        pooled_ZK: Tensor = _mean(x_MZK, share_MZ) + self.second(_mean(hidden_MZH, share_MZ))
        return pooled_ZK

    def _normal(self, x_MZK: Tensor) -> Tensor:
        norm = self.norm
        weight, bias = at_least_float32(norm.weight), at_least_float32(norm.bias)
        return F.layer_norm(at_least_float32(x_MZK), norm.normalized_shape, weight, bias, norm.eps)


class MixerLayer(nn.Module):
    """The paper's layer: half as many hidden tokens, four times as many hidden channels."""

    def __init__(self, tokens: int, channels: int) -> None:
        super().__init__()
        self.tokens = TokenMixing(tokens, tokens // 2)
        self.channels = ChannelMixing(channels, 4 * channels)


class Mixer(nn.Module):
    """Layers one after another, then the mean over the tokens: (M, Z, K) → (Z, K)."""

    def __init__(self, num_layers: int, tokens: int, channels: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(MixerLayer(tokens, channels) for _ in range(num_layers))
        out = MaskShape(tokens, channels)
        self.masks = [
            MaskShape(tokens // 2, channels),
            out,
            MaskShape(tokens, 4 * channels),
            out,
        ] * num_layers
        """The masks that dropout is asked for, in this order."""

    def forward(self, x_MZK: Tensor, dropout: Dropout, share_MZ: Tensor | None = None) -> Tensor:
        """`share_MZ`: of each token in the mean, together 1; None: the same for all."""
        dropout.expect(self.masks, x_MZK.shape[1])
        for number, layer in enumerate(self.layers, start=1):
            assert isinstance(layer, MixerLayer)
            x_MZK = layer.tokens(x_MZK, dropout)
            if number == len(self.layers) and dropout.keeps_all:
                return layer.channels.pooled(x_MZK, share_MZ)
            x_MZK = layer.channels(x_MZK, dropout)
        return _mean(x_MZK, share_MZ)


def _mean(x_MZK: Tensor, share_MZ: Tensor | None) -> Tensor:
    """Return the mean over the tokens."""
    return x_MZK.mean(0) if share_MZ is None else (x_MZK * share_MZ[..., None].to(x_MZK.dtype)).sum(0)


def _along_tokens(x_MZK: Tensor, weight_HM: Tensor, bias_H: Tensor) -> Tensor:
    """Apply a linear layer along the first axis."""
    if not serves_host(x_MZK):
        flat = torch.addmm(bias_H[:, None], weight_HM, x_MZK.flatten(1))
        return flat.view(len(weight_HM), *x_MZK.shape[1:])
    out_HZK: Tensor = _AlongTokens.apply(*in_product_type(x_MZK, weight_HM, bias_H))  # type: ignore[no-untyped-call]
    return out_HZK


class _AlongTokens(torch.autograd.Function):
    """Mixes along the tokens, with a gradient of the weight that takes the host a third of autograd's
    time."""

    @staticmethod
    def forward(ctx: FunctionCtx, x_MZK: Tensor, weight_HM: Tensor, bias_H: Tensor) -> Tensor:
        ctx.save_for_backward(x_MZK, weight_HM)
        out = torch.addmm(bias_H[:, None], weight_HM, x_MZK.flatten(1))
        return out.view(len(weight_HM), *x_MZK.shape[1:])

    @staticmethod
    def backward(ctx: FunctionCtx, gradient_HZK: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x_MZK, weight_HM = ctx.saved_tensors  # type: ignore[attr-defined]
        flat_gradient = gradient_HZK.flatten(1)
        to_x_MZK = torch.mm(weight_HM.t(), flat_gradient).view(x_MZK.shape)
        # the fewer rows come first
        if len(gradient_HZK) < len(x_MZK):
            to_weight_HM = _products_of_rows(gradient_HZK, x_MZK)
        else:
            to_weight_HM = (
                _products_of_rows(x_MZK, gradient_HZK).t().clone(memory_format=torch.contiguous_format)
            )
        return to_x_MZK, to_weight_HM, flat_gradient.sum(1)


def _products_of_rows(one_MZK: Tensor, other_HZK: Tensor) -> Tensor:
    """Return products of rows, (M, H). They are computed in pieces, since one product of long and few rows
    takes the host three times as long."""
    num_sequences, channels = one_MZK.shape[1:]
    pieces = math.gcd(num_sequences, PIECES)
    size = num_sequences // pieces * channels
    one_pieces = one_MZK.reshape(len(one_MZK), pieces, size).transpose(0, 1)
    other_pieces = other_HZK.reshape(len(other_HZK), pieces, size).permute(1, 2, 0)
    return torch.bmm(one_pieces, other_pieces).sum(0)


def _normal_tokens(x_MZK: Tensor, eps: float) -> Tensor:
    """Normalise along the first axis as LayerNorm does, without its weights."""
    if not serves_host(x_MZK) and x_MZK.numel():
        # what batches are to its channels, tokens are to ours: one operation, in float32 inside
        return F.batch_norm(x_MZK.flatten(1), None, None, training=True, eps=eps).view(x_MZK.shape)
    normal_MZK: Tensor = _NormalTokens.apply(at_least_float32(x_MZK), eps)  # type: ignore[no-untyped-call]
    return normal_MZK


class _NormalTokens(torch.autograd.Function):
    """Normalises along the tokens, in half as many passes as autograd takes."""

    @staticmethod
    def forward(ctx: FunctionCtx, x_MZK: Tensor, eps: float) -> Tensor:
        normal_MZK = x_MZK - x_MZK.mean(0)
        inverse_ZK = torch.rsqrt(normal_MZK.square().mean(0) + eps)
        ctx.save_for_backward(normal_MZK.mul_(inverse_ZK), inverse_ZK)
        return normal_MZK

    @staticmethod
    def backward(ctx: FunctionCtx, gradient_MZK: Tensor) -> tuple[Tensor, None]:
        normal_MZK, inverse_ZK = ctx.saved_tensors  # type: ignore[attr-defined]
        along_ZK = (gradient_MZK * normal_MZK).mean(0)
        across_MZK = torch.addcmul(gradient_MZK, normal_MZK, along_ZK, value=-1)
        return across_MZK.sub_(gradient_MZK.mean(0)).mul_(inverse_ZK), None
