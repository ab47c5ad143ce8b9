"""A linear layer for widths like 172, which are not a multiple of the host's vectors.

A product whose last axis is 172 runs at two thirds of the speed of one of 176 (190 against 280 GFLOP/s on two
cores). So on the host results are computed with a few zero columns more, which are cut off as a view, and the
gradient of the weight is computed with its wider axis last.

On a GPU rows of 172 bfloat16 values do not begin at borders of 16 bytes, without which its fastest products
do not run. So of many rows factors and results are made a multiple of 8 values wide there; of few rows
starting the operations for it would take longer than it saves. Otherwise this is torch's own layer. A
compiler aligns by itself.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from tpnet_dist.models.common.host_forms import serves_host
from tpnet_dist.models.common.precision import in_product_type

VECTOR = 16
GPU_VECTOR = 8
"""The number of bfloat16 values in 16 bytes."""
ALIGNED_FROM = 8192
"""The number of rows from which aligning is worth it; assumed, since no GPU was at hand."""


class AlignedLinear(nn.Linear):
    """Has the parameters and computes the function of `nn.Linear`."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


def draw_for(layer: nn.Linear, fan_in: int) -> None:
    """Draw torch's initial weights of a layer with so many inputs."""
    bound = 1 / math.sqrt(fan_in)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -bound, bound)


def linear(x_I: Tensor, weight_OI: Tensor, bias_O: Tensor) -> Tensor:
    if not serves_host(x_I):
        is_odd = any(size % GPU_VECTOR for size in weight_OI.shape)
        if is_odd and not torch.compiler.is_compiling() and _is_worth_aligning(x_I):
            return _aligned_for_gpu(x_I, weight_OI, bias_O)
        return F.linear(x_I, weight_OI, bias_O)
    factors = in_product_type(x_I.flatten(0, -2), weight_OI, bias_O)
    out_TO: Tensor = _Aligned.apply(*factors)  # type: ignore[no-untyped-call]
    return out_TO.view(*x_I.shape[:-1], len(weight_OI))


def _is_worth_aligning(x_I: Tensor) -> bool:
    device, num_rows = x_I.device.type, x_I.numel() // max(1, x_I.shape[-1])
    in_bfloat16 = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.bfloat16
    return in_bfloat16 and num_rows >= ALIGNED_FROM


def _aligned_for_gpu(x_I: Tensor, weight_OI: Tensor, bias_O: Tensor) -> Tensor:
    """Multiply with zeros beside the factors; what they add to the result is cut off as a view."""
    outputs, inputs = weight_OI.shape
    more_O, more_I = -outputs % GPU_VECTOR, -inputs % GPU_VECTOR
    x_I, weight_OI, bias_O = in_product_type(x_I, weight_OI, bias_O)
    # padding by nothing would copy
    wide_x = F.pad(x_I, (0, more_I)) if more_I else x_I
    wide_bias = F.pad(bias_O, (0, more_O)) if more_O else bias_O
    wide = F.linear(wide_x, F.pad(weight_OI, (0, more_I, 0, more_O)), wide_bias)
    return wide[..., :outputs] if more_O else wide


class _Aligned(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x_TI: Tensor, weight_OI: Tensor, bias_O: Tensor) -> Tensor:
        ctx.save_for_backward(x_TI, weight_OI)
        outputs = len(weight_OI)
        missing = -outputs % VECTOR
        # turned round beforehand, wide inputs are multiplied a quarter faster
        weight_IO = F.pad(weight_OI.t(), (0, missing)).contiguous()
        return torch.addmm(F.pad(bias_O, (0, missing)), x_TI, weight_IO)[:, :outputs]

    @staticmethod
    def backward(ctx: FunctionCtx, gradient_TO: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x_TI, weight_OI = ctx.saved_tensors  # type: ignore[attr-defined]
        outputs, inputs = weight_OI.shape
        weight = F.pad(weight_OI, (0, -inputs % VECTOR))
        to_x_TI = torch.mm(gradient_TO, weight)[:, :inputs]
        if outputs > inputs:
            # data parallelism wants gradients that lie as their weights do
            to_weight_OI = torch.mm(x_TI.t(), gradient_TO).t().clone(memory_format=torch.contiguous_format)
        else:
            to_weight_OI = torch.mm(gradient_TO.t(), x_TI)
        return to_x_TI, to_weight_OI, gradient_TO.sum(0)
