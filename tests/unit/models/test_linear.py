"""The aligned layer is a linear layer, gradients included, whatever the widths."""

import pytest
import torch
import torch.nn.functional as F

from tpnet_dist.models.common.host_forms import plain_forms
from tpnet_dist.models.common.linear import AlignedLinear


@pytest.mark.parametrize(("inputs", "outputs"), [(5, 20), (20, 5), (16, 32), (1, 1), (17, 17)])
@pytest.mark.parametrize("shape", [(7,), (3, 4), (0,)], ids=str)
def test_aligned_layer_equals_a_linear_layer(shape: tuple[int, ...], inputs: int, outputs: int) -> None:
    torch.manual_seed(0)
    layer = AlignedLinear(inputs, outputs).double()
    x = torch.randn(*shape, inputs, dtype=torch.float64, requires_grad=True)
    found, expected = layer(x), F.linear(x, layer.weight, layer.bias)
    torch.testing.assert_close(found, expected)

    weights = torch.randn_like(expected)
    wanted = [x, layer.weight, layer.bias]
    gradients = torch.autograd.grad((found * weights).sum(), wanted)
    for gradient, other in zip(
        gradients, torch.autograd.grad((expected * weights).sum(), wanted), strict=True
    ):
        torch.testing.assert_close(gradient, other)


@pytest.mark.parametrize(("inputs", "outputs"), [(172, 688), (688, 172), (12, 12), (16, 32)])
@pytest.mark.parametrize("least_rows", [1, 10**6])
def test_on_a_gpu_rows_of_bfloat16_are_aligned_where_there_are_many(
    monkeypatch: pytest.MonkeyPatch, inputs: int, outputs: int, least_rows: int
) -> None:
    monkeypatch.setattr("tpnet_dist.models.common.linear.ALIGNED_FROM", least_rows)
    torch.manual_seed(0)
    layer = AlignedLinear(inputs, outputs)
    x = torch.randn(3, 4, inputs, requires_grad=True)
    with plain_forms(), torch.autocast("cpu", torch.bfloat16):
        found = layer(x)
        expected = F.linear(x, layer.weight, layer.bias)
    is_aligned = found.stride(1) % 8 == 0 and found.stride(1) > outputs
    assert is_aligned == (least_rows == 1 and outputs % 8 > 0)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected)
    wanted = [x, layer.weight, layer.bias]
    gradients = torch.autograd.grad(found.float().square().sum(), wanted)
    others = torch.autograd.grad(expected.float().square().sum(), wanted)
    for gradient, other in zip(gradients, others, strict=True):
        torch.testing.assert_close(gradient, other, rtol=0.02, atol=0.02 * float(other.abs().max()))
