"""Elapsed times as cosines of learnt frequencies."""

import numpy as np
import torch
from torch import Tensor, nn

from tpnet_dist.models.common.precision import at_least_float32


class TimeEncoding(nn.Module):
    """cos(ω · log(1 + Δt) + b); ω starts spread over nine decades, b at zero."""

    def __init__(self, width: int) -> None:
        super().__init__()
        # not by torch: on its meta device, where preflight builds the model, that imports its compiler
        self.frequency = nn.Parameter(torch.from_numpy(10.0 ** -np.linspace(0, 9, width)).float())
        self.phase = nn.Parameter(torch.zeros(width))

    def forward(self, elapsed: Tensor) -> Tensor:
        """Encode times: (…) → (…, width)."""
        frequency, phase = at_least_float32(self.frequency), at_least_float32(self.phase)
        logarithm = torch.log1p(elapsed).to(frequency.dtype)
        return torch.cos(torch.addcmul(phase, logarithm[..., None], frequency))


class PlainTimeEncoding(TimeEncoding):
    """cos(ω · Δt + b). The product is rounded before b is added: at large Δt that matters."""

    def forward(self, elapsed: Tensor) -> Tensor:
        """Encode times: (…) → (…, width)."""
        frequency, phase = at_least_float32(self.frequency), at_least_float32(self.phase)
        return torch.cos(elapsed[..., None].to(frequency.dtype) * frequency + phase)
