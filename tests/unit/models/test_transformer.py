"""Attention and blocks are torch's own, with dropout that keeps the mean."""

import pytest
import torch
from torch import Tensor, nn

from tpnet_dist.models.common.attention import Attention
from tpnet_dist.models.common.dropout import Dropout, EventDropout
from tpnet_dist.models.common.transformer import PostNormBlock

Z, Q, M, K, HEADS = 3, 5, 4, 12, 2


def tokens(count: int) -> Tensor:
    torch.manual_seed(count)
    return torch.randn(Z, count, K, dtype=torch.float64)


def torch_attention(ours: Attention) -> nn.MultiheadAttention:
    theirs = nn.MultiheadAttention(K, HEADS, batch_first=True, dtype=torch.float64)
    theirs.load_state_dict(
        {
            "in_proj_weight": ours.inputs.weight,
            "in_proj_bias": ours.inputs.bias,
            "out_proj.weight": ours.output.weight,
            "out_proj.bias": ours.output.bias,
        }
    )
    return theirs


def attended(ours: Attention, query: Tensor, other: Tensor, bias: Tensor | None, dropout: Dropout) -> Tensor:
    weight, shift = ours.inputs.weight.chunk(3), ours.inputs.bias.chunk(3)
    parts = [x @ w.T + b for x, w, b in zip((query, other, other), weight, shift, strict=True)]
    out: Tensor = ours.output(ours.attend(*parts, bias, dropout))
    return out


def test_attention_and_its_gradients_are_those_of_torch() -> None:
    torch.manual_seed(0)
    ours, query, other = Attention(K, HEADS).double(), tokens(Q), tokens(M)
    left_out = torch.tensor([[0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 1, 1]]).bool()
    results = []
    for asked in ("ours", "torch"):
        x, y = query.clone().requires_grad_(), other.clone().requires_grad_()
        if asked == "ours":
            bias = torch.zeros(Z, M).masked_fill(left_out, float("-inf"))
            out = attended(ours, x, y, bias, Dropout())
        else:
            out, _ = torch_attention(ours)(x, y, y, key_padding_mask=left_out)
        out.square().sum().backward()
        results.append((out, x.grad, y.grad))
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_block_is_torchs_own() -> None:
    torch.manual_seed(0)
    block = PostNormBlock(K, HEADS).double()
    theirs = nn.TransformerEncoderLayer(
        K, HEADS, 4 * K, dropout=0, activation="relu", batch_first=True, dtype=torch.float64
    )
    theirs.self_attn = torch_attention(block.attention)
    for mine, other in (
        (block.first, theirs.linear1),
        (block.second, theirs.linear2),
        (block.norms[0], theirs.norm1),
        (block.norms[1], theirs.norm2),
    ):
        other.load_state_dict(mine.state_dict())
    x = tokens(M)
    torch.testing.assert_close(block(x, None, Dropout()), theirs(x))


@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_gradients_with_dropout_are_those_of_the_same_masks(rate: float) -> None:
    torch.manual_seed(0)
    block, keys = PostNormBlock(K, HEADS).double(), torch.arange(Z)

    def scored(x: Tensor) -> Tensor:
        out: Tensor = block(x, None, EventDropout(keys, rate, events_first=True))
        return out

    assert torch.autograd.gradcheck(scored, (tokens(M).requires_grad_(),))


def test_dropout_keeps_the_mean_of_what_is_attended_to() -> None:
    torch.manual_seed(0)
    ours, query, other = Attention(K, HEADS).double(), tokens(Q), tokens(M)
    draws = 4000
    keys = torch.arange(Z * draws)
    many = [each.repeat_interleave(draws, 0) for each in (query, other)]
    dropout = EventDropout(keys, 0.3, events_first=True)
    with torch.no_grad():
        plain = attended(ours, query, other, None, Dropout())
        ours.output.weight *= dropout.scale
        dropped = attended(ours, *many, None, dropout).view(Z, draws, Q, K)
    assert dropped.std(1).min() > 0
    torch.testing.assert_close(dropped.mean(1), plain, rtol=0.05, atol=0.05)
