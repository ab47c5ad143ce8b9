"""A linear layer for widths like 172, which are not a multiple of the host's vectors.

A product whose last axis is 172 runs at two thirds of the speed of one of 176 (190 against 280 GFLOP/s on two
cores). So on the host results are computed with a few zero columns more, which are cut off as a view, and the
gradient of the weight is computed with its wider axis last. Elsewhere this is torch's own layer.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from tpnet_dist.models.common.host_forms import serves_host
from tpnet_dist.models.common.precision import in_product_type

VECTOR = 16


class AlignedLinear(nn.Linear):
    """The same parameters and the same function as `nn.Linear`."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


def linear(x_I: Tensor, weight_OI: Tensor, bias_O: Tensor) -> Tensor:
    if not serves_host(x_I):
        return F.linear(x_I, weight_OI, bias_O)
    factors = in_product_type(x_I.flatten(0, -2), weight_OI, bias_O)
    out_TO: Tensor = _Aligned.apply(*factors)  # type: ignore[no-untyped-call]
    return out_TO.view(*x_I.shape[:-1], len(weight_OI))


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
