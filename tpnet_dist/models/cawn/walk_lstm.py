"""A bidirectional LSTM along walks, read at each walk's last step.

Walks that share their beginning share the forward states of it, so states are computed once for each distinct
step. The backward direction begins at a walk's last step, where it is read: it sees that step alone, and its
state before is zero. So its recurrent weights do nothing, here as in the released code, and of its gates the
one that forgets.

H hidden values have the gates i, f, o and g of the forward direction, and i, o and g of the backward one.
"""

import math

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from tpnet_dist.models.common.linear import linear
from tpnet_dist.models.common.precision import at_least_float32


class WalkLSTM(nn.Module):
    """Its weights, for both directions, are those of torch's LSTM: gates in the order i, f, g, o."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        bound = 1 / math.sqrt(hidden)

        def weight(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))

        self.input_weight, self.hidden_weight = weight(4 * hidden, inputs), weight(4 * hidden, hidden)
        self.input_bias, self.hidden_bias = weight(4 * hidden), weight(4 * hidden)
        self.back_input_weight, self.back_hidden_weight = (
            weight(4 * hidden, inputs),
            weight(4 * hidden, hidden),
        )
        self.back_input_bias, self.back_hidden_bias = weight(4 * hidden), weight(4 * hidden)

    def step(
        self, x_TI: Tensor, recurrent_TH: Tensor | None = None, cell_TH: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return both directions' outputs at each step, (T, 2H), and the forward cell, (T, H).

        Of the forward direction one step earlier: what `recurrent` makes of its output, and its cell; None at
        the first step.
        """
        gates_TH = at_least_float32(linear(x_TI, *self._both_directions()))
        out_TH, cell_TH = _Step.apply(gates_TH, recurrent_TH, cell_TH)  # type: ignore[no-untyped-call]
        return out_TH, cell_TH

    def recurrent(self, out_TH: Tensor) -> Tensor:
        """Return what the forward gates of the next step get from this one's output: (T, 4H)."""
        no_bias_H = self.hidden_bias.new_zeros(4 * self.hidden)
        return at_least_float32(linear(out_TH, _in_our_order(self.hidden_weight), no_bias_H))

    def _both_directions(self) -> tuple[Tensor, Tensor]:
        bias = self.input_bias + self.hidden_bias
        # nothing comes from a state of zero, but weights that take no part have no gradient
        from_zero = self.back_hidden_weight @ self.back_hidden_weight.new_zeros(self.hidden)
        back_bias = self.back_input_bias + self.back_hidden_bias + from_zero
        weights = [_in_our_order(self.input_weight), _in_our_order(self.back_input_weight, forgets=False)]
        biases = [_in_our_order(bias), _in_our_order(back_bias, forgets=False)]
        return torch.cat(weights), torch.cat(biases)


def _in_our_order(values: Tensor, *, forgets: bool = True) -> Tensor:
    """Reorder i, f, g, o to i, f, o, g, so that sigmoids lie together; without f if nothing is forgotten."""
    i, f, g, o = values.chunk(4)
    return torch.cat([i, f, o, g] if forgets else [i, o, g])


class _Step(torch.autograd.Function):
    """A step of the LSTM, in as few passes over the gates as torch can, with one gradient for all of them."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, gates: Tensor, recurrent: Tensor | None, cell_before: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        hidden = gates.shape[1] // 7
        forward, act = 4 * hidden, torch.empty_like(gates, memory_format=torch.contiguous_format)
        if recurrent is None:
            act.copy_(gates)
        else:
            torch.add(gates[:, :forward], recurrent, out=act[:, :forward])
            act[:, forward:] = gates[:, forward:]
        act[:, : 3 * hidden].sigmoid_()
        act[:, 3 * hidden : forward].tanh_()
        act[:, forward : 6 * hidden].sigmoid_()
        act[:, 6 * hidden :].tanh_()
        i, f, o, g, back_i, back_o, back_g = act.chunk(7, 1)
        cell = i * g if cell_before is None else torch.addcmul(i * g, f, cell_before)
        squashed, back_squashed = torch.tanh(cell), torch.tanh(back_i * back_g)
        ctx.save_for_backward(act, cell_before, squashed, back_squashed)  # type: ignore[arg-type]
        return torch.cat([o * squashed, back_o * back_squashed], 1), cell

    @staticmethod
    def backward(
        ctx: FunctionCtx, to_out: Tensor | None, to_cell: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        act, cell_before, squashed, back_squashed = ctx.saved_tensors  # type: ignore[attr-defined]
        i, f, o, g, back_i, back_o, back_g = act.chunk(7, 1)
        hidden, to_act = i.shape[1], torch.empty_like(act)
        to_i, to_f, to_o, to_g, to_back_i, to_back_o, to_back_g = to_act.chunk(7, 1)
        to_before = to_recurrent = None
        if to_out is None:
            to_out = torch.zeros_like(act[:, : 2 * hidden])
        to_forward, to_back = to_out.chunk(2, 1)
        torch.mul(to_forward, squashed, out=to_o)
        through = _through_tanh(to_forward * o, squashed)
        if to_cell is not None:
            through += to_cell
        torch.mul(through, g, out=to_i)
        torch.mul(through, i, out=to_g)
        if cell_before is None:
            to_f.zero_()
        else:
            torch.mul(through, cell_before, out=to_f)
            to_before = through * f
        torch.mul(to_back, back_squashed, out=to_back_o)
        through = _through_tanh(to_back * back_o, back_squashed)
        torch.mul(through, back_g, out=to_back_i)
        torch.mul(through, back_i, out=to_back_g)
        for first, last in ((0, 3), (4, 6)):
            here = slice(first * hidden, last * hidden)
            to_act[:, here] *= act[:, here] * (1 - act[:, here])
        for to_each, each in ((to_g, g), (to_back_g, back_g)):
            to_each *= 1 - each * each
        if cell_before is not None:
            to_recurrent = to_act[:, : 4 * hidden]
        return to_act, to_recurrent, to_before


def _through_tanh(gradient: Tensor, squashed: Tensor) -> Tensor:
    through: Tensor = torch.ops.aten.tanh_backward(gradient, squashed)
    return through
