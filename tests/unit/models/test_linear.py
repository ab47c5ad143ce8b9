"""The aligned layer is a linear layer, gradients included, whatever the widths."""

import pytest
import torch
import torch.nn.functional as F

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
