"""Decides what computes in bfloat16 under autocast, and what never does.

Matrix products of the dense model do, and the tokens between them. Rows, their inner products and logarithms,
times, norms, logits and the loss do not: bfloat16 keeps 8 bits, too few for sums, for times of years and
seconds, and for scores that are ranked. Without autocast nothing here changes anything.
"""

import torch
from torch import Tensor


def in_product_type(*factors: Tensor) -> tuple[Tensor, ...]:
    """Return the factors of a matrix product as autocast wants them; functions of our own are not known to
    it."""
    device = factors[0].device.type
    if not torch.is_autocast_enabled(device):
        return factors
    return tuple(factor.to(torch.get_autocast_dtype(device)) for factor in factors)


def at_least_float32(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))
