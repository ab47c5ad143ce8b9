"""Attention of the tokens of a sequence to those of another or of the same one.

The weights of all heads lie in one matrix for queries, keys and values, as in `nn.MultiheadAttention`; a head
is a slice of the channels. Each head has matrix products of its own on slices of the tokens as they lie, so
nothing is turned round or copied. torch's fused attention would draw its own dropout, which does not belong
to events.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from tpnet_dist.models.common.dropout import Dropout
from tpnet_dist.models.common.linear import AlignedLinear
from tpnet_dist.models.common.precision import at_least_float32, in_product_type


class Attention(nn.Module):
    """Projections to queries, keys and values, and of what was attended to; dropout on attention weights."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        assert channels % heads == 0, (channels, heads)
        self.heads = heads
        self.inputs = AlignedLinear(channels, 3 * channels)
        self.output = AlignedLinear(channels, channels)
        nn.init.xavier_uniform_(self.inputs.weight)
        nn.init.zeros_(self.inputs.bias)
        nn.init.zeros_(self.output.bias)

    def attend(
        self, query_ZQK: Tensor, key_ZMK: Tensor, value_ZMK: Tensor, bias_ZM: Tensor | None, dropout: Dropout
    ) -> Tensor:
        """Return values weighed by what queries have in common with keys; `bias_ZM` is added to the logarithm
        of the weight of each key, −inf leaves it out. What dropout keeps is not scaled."""
        keep = dropout.kept(query_ZQK, (len(query_ZQK), self.heads, query_ZQK.shape[1], key_ZMK.shape[1]))
        factors = in_product_type(query_ZQK, key_ZMK, value_ZMK)
        out_ZQK: Tensor = _Attention.apply(*factors, bias_ZM, keep, self.heads)  # type: ignore[no-untyped-call]
        return out_ZQK


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx,
        query_ZQK: Tensor,
        key_ZMK: Tensor,
        value_ZMK: Tensor,
        bias_ZM: Tensor | None,
        keep: Tensor | None,
        heads: int,
    ) -> Tensor:
        out_ZQK = torch.empty_like(query_ZQK, memory_format=torch.contiguous_format)
        weights = []
        for number, here in enumerate(_slices(query_ZQK.shape[-1], heads)):
            scores_ZQM = torch.bmm(query_ZQK[..., here], key_ZMK[..., here].mT)
            scores_ZQM = at_least_float32(scores_ZQM).mul_(_scale(here))
            if bias_ZM is not None:
                scores_ZQM += bias_ZM[:, None]
            weight_ZQM = F.softmax(scores_ZQM, -1).to(query_ZQK.dtype)
            weights.append(weight_ZQM)
            kept_ZQM = weight_ZQM if keep is None else weight_ZQM * keep[:, number]
            out_ZQK[..., here] = torch.bmm(kept_ZQM, value_ZMK[..., here])
        ctx.save_for_backward(query_ZQK, key_ZMK, value_ZMK, keep, *weights)  # type: ignore[arg-type]
        return out_ZQK

    @staticmethod
    def backward(ctx: FunctionCtx, to_out_ZQK: Tensor) -> tuple[Tensor | None, ...]:
        query_ZQK, key_ZMK, value_ZMK, keep, *weights = ctx.saved_tensors  # type: ignore[attr-defined]
        to_query, to_key, to_value = (
            torch.empty_like(each, memory_format=torch.contiguous_format)
            for each in (query_ZQK, key_ZMK, value_ZMK)
        )
        for number, here in enumerate(_slices(query_ZQK.shape[-1], len(weights))):
            weight_ZQM, to_out = weights[number], to_out_ZQK[..., here]
            kept_ZQM = weight_ZQM if keep is None else weight_ZQM * keep[:, number]
            to_value[..., here] = torch.bmm(kept_ZQM.mT, to_out)
            to_weight_ZQM = torch.bmm(to_out, value_ZMK[..., here].mT)
            if keep is not None:
                to_weight_ZQM *= keep[:, number]
            to_scores_ZQM = torch._softmax_backward_data(to_weight_ZQM, weight_ZQM, -1, weight_ZQM.dtype)
            to_scores_ZQM *= _scale(here)
            to_query[..., here] = torch.bmm(to_scores_ZQM, key_ZMK[..., here])
            to_key[..., here] = torch.bmm(to_scores_ZQM.mT, query_ZQK[..., here])
        return to_query, to_key, to_value, None, None, None


def _slices(channels: int, heads: int) -> list[slice]:
    width = channels // heads
    return [slice(start, start + width) for start in range(0, channels, width)]


def _scale(head: slice) -> float:
    return 1 / math.sqrt(head.stop - head.start)
