"""Linear layers of features that may not exist, with initial weights as if they had been padded."""

import math

import torch
from torch import Tensor, nn

from tpnet_dist.models.common.linear import linear


class FeatureLinear(nn.Module):
    """A linear layer whose inputs the published code pads with zeros to `padded`.

    Columns that would only ever meet zeros do not exist; without any there is no weight, but still a bias.
    """

    def __init__(self, width: int, outputs: int, *, padded: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(max(width, padded))
        self.weight = nn.Parameter(torch.empty(outputs, width).uniform_(-bound, bound)) if width else None
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))


def sum_of_linear(layers: list[FeatureLinear], inputs: list[Tensor | None]) -> Tensor:
    """Return the sum of what the layers make of their inputs, as one matrix product."""
    weights: list[Tensor] = [layer.weight for layer in layers if layer.weight is not None]
    present = [each for each in inputs if each is not None]
    bias_O = torch.stack([layer.bias for layer in layers]).sum(0)
    return linear(torch.cat(present, -1), torch.cat(weights, 1), bias_O)
