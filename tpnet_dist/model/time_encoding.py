"""Elapsed times as cosines of learnt frequencies."""

import torch
from torch import Tensor, nn

from tpnet_dist.model.precision import at_least_float32


class TimeEncoding(nn.Module):
    """cos(ω · log(1 + Δt) + b); ω starts spread over nine decades, b at zero."""

    def __init__(self, width: int) -> None:
        super().__init__()
        exponents = torch.linspace(0, 9, width, dtype=torch.float64)
        self.frequency = nn.Parameter((10.0**-exponents).float())
        self.phase = nn.Parameter(torch.zeros(width))

    def forward(self, elapsed: Tensor) -> Tensor:
        """(…) → (…, width)."""
        frequency, phase = at_least_float32(self.frequency), at_least_float32(self.phase)
        logarithm = torch.log1p(elapsed).to(frequency.dtype)
        return torch.cos(torch.addcmul(phase, logarithm[..., None], frequency))
