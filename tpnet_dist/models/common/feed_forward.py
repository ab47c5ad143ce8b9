"""Linear → GELU or ReLU → dropout → linear on the host, in as few passes over the hidden values as torch can.

There are four hidden values for each channel, 11 million of them in a layer's step of 200 events: every pass
over them takes as long as a fifth of one of the six matrix products. So

- what will be dropped is told before the first product, which is added to a buffer that already holds −1e18
  there: GELU and ReLU make that 0, and their slope is 0 too. No mask is multiplied, forward or backward, or
  kept.
- the first bias is the weight of one more input, which is always 1: it is neither added nor summed up apart.

Widths are made multiples of the host's vectors, as in `linear`.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import FunctionCtx

from tpnet_dist.models.common.linear import VECTOR
from tpnet_dist.models.common.precision import in_product_type

Activation = Literal["gelu", "relu"]

DROPPED = -1e18


def feed_forward(
    x_I: Tensor,
    first: tuple[Tensor, Tensor],
    second: tuple[Tensor, Tensor],
    dropped_H: Tensor | None = None,
    activation: Activation = "gelu",
) -> Tensor:
    """Compute linear → activation → dropout → linear. `first`, `second`: weight and bias. `dropped_H`: 1 for
    each hidden value to drop, 0 for others, in the type of products; it is overwritten. Kept values are not
    scaled."""
    dropped_TH = None if dropped_H is None else dropped_H.flatten(0, -2)
    factors = in_product_type(x_I.flatten(0, -2), *first, *second)
    out_TO: Tensor = _FeedForward.apply(*factors, dropped_TH, activation)  # type: ignore[no-untyped-call]
    return out_TO.view(*x_I.shape[:-1], out_TO.shape[1])


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx,
        x_TI: Tensor,
        first_HI: Tensor,
        bias_H: Tensor,
        second_OH: Tensor,
        bias_O: Tensor,
        dropped_TH: Tensor | None,
        activation: Activation,
    ) -> Tensor:
        ctx.activation = activation  # type: ignore[attr-defined]
        ctx.inputs = inputs = x_TI.shape[1]  # type: ignore[attr-defined]
        ones = VECTOR - inputs % VECTOR
        padded_x = x_TI.new_empty(len(x_TI), inputs + ones)
        padded_x[:, :inputs], padded_x[:, inputs:] = x_TI, 1.0
        padded_first = F.pad(torch.cat([first_HI, bias_H[:, None]], 1), (0, ones - 1))
        if dropped_TH is None:
            before_TH = torch.mm(padded_x, padded_first.t())
        else:
            before_TH = dropped_TH.addmm_(padded_x, padded_first.t(), beta=DROPPED)
        # of ReLU the result tells the slope, so what came before it need not be kept
        hidden_TH = F.gelu(before_TH) if activation == "gelu" else F.relu_(before_TH)
        ctx.save_for_backward(padded_x, padded_first, before_TH, hidden_TH, second_OH)
        outputs = len(second_OH)
        missing = -outputs % VECTOR
        second_HO = F.pad(second_OH.t(), (0, missing)).contiguous()
        return torch.addmm(F.pad(bias_O, (0, missing)), hidden_TH, second_HO)[:, :outputs]

    @staticmethod
    def backward(ctx: FunctionCtx, to_out_TO: Tensor) -> tuple[Tensor | None, ...]:
        padded_x, padded_first, before_TH, hidden_TH, second_OH = ctx.saved_tensors  # type: ignore[attr-defined]
        to_second_OH = torch.mm(to_out_TO.t(), hidden_TH)
        to_before_TH = torch.mm(to_out_TO, second_OH)
        if ctx.activation == "gelu":  # type: ignore[attr-defined]
            torch.ops.aten.gelu_backward.grad_input(to_before_TH, before_TH, grad_input=to_before_TH)
        else:
            torch.ops.aten.threshold_backward.grad_input(to_before_TH, hidden_TH, 0, grad_input=to_before_TH)
        to_padded_first = torch.mm(padded_x.t(), to_before_TH)
        inputs = ctx.inputs  # type: ignore[attr-defined]
        # data parallelism wants gradients that lie as their weights do
        to_first_HI = to_padded_first[:inputs].t().clone(memory_format=torch.contiguous_format)
        to_bias_H = to_padded_first[inputs]
        # the norm before us takes twice as long for rows that do not follow one another
        to_x_TI = torch.mm(to_before_TH, padded_first)[:, :inputs].contiguous()
        return to_x_TI, to_first_HI, to_bias_H, to_second_OH, to_out_TO.sum(0), None, None
