"""Elapsed times as cosines, as most published models have them: cos(ω · Δt + b).

Frequencies reach 1 and times reach years, so that arguments of millions are rounded to float32, and the
released code's results depend on where. Here as there the product is rounded before the phase is added: one
fused operation would differ by half a radian at Δt = 1e7.
"""

import numpy as np
import torch
from torch import Tensor, nn

from tpnet_dist.models.common.precision import at_least_float32


class ElapsedEncoding(nn.Module):
    """cos(ω · Δt + b); ω starts spread over nine decades, b at zero."""

    def __init__(self, width: int) -> None:
        super().__init__()
        frequency = torch.from_numpy(10.0 ** -np.linspace(0, 9, width)).float()
        self.frequency, self.phase = nn.Parameter(frequency), nn.Parameter(torch.zeros(width))

    def forward(self, elapsed: Tensor) -> Tensor:
        """(…) → (…, width)."""
        frequency, phase = at_least_float32(self.frequency), at_least_float32(self.phase)
        return torch.cos(elapsed[..., None].to(frequency.dtype) * frequency + phase)
