"""The three walk matrices as three small sets of factors on one stored form.

Every row has a clock: the time of its node's last event. A row is stored as it was at its clock, so nothing
happens to it while its node is silent: no dense decay, no rebasing, and no factor ever exceeds 1.

    walk          weight of an event     reading layer l           moving a row to a later clock
                  `age` before a clock                             (both: `elapsed` after its clock)
    decay         e^(−λ·age)             × e^(−λ·l·elapsed)        × e^(−λ·l·elapsed)
    count         1                      × 1                       × 1
    transition    e^(−α·age)             ÷ D_u   (layer 0: × 1)    × e^(−α·elapsed)   (layer 0: × 1)

D_u, the degree, is the sum of the weights of u's events, kept on u's clock like the row. A message of v's
layer l−1 to u's layer l is: weight of the event × v's row read at u's new clock.

A `decay` walk may fade at several rates, its timescales. A row then has k layers for each of them, and one
layer 0 for all. Layers lie hop by hop, so that those of up to so many hops are the first ones of a row:

    two timescales, two hops      layer    0   1     2     3     4
                                  hops     0   1     1     2     2
                                  rate         λ_0   λ_1   λ_0   λ_1
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tpnet_dist.errors import InputError

WalkKind = Literal["decay", "count", "transition"]


class LayerRules(NamedTuple):
    """What each layer of a row is made of, as the kernels take it. Layer 0 never changes."""

    parent_L: npt.NDArray[np.int64]
    """The layer of other rows that it reads; always a lower one, so layers are recorded from the top."""
    hop_L: npt.NDArray[np.int64]
    """The number of events of each layer's walks; layers lie in this order."""
    scale_L: npt.NDArray[np.int64]
    """The timescale of each layer."""
    rate_W: npt.NDArray[np.float64]
    """The rate at which layers of a timescale fade, per second and hop."""
    divides_by_degree: bool


@dataclass(frozen=True)
class Walk:
    """One walk matrix: its kind, how many hops, how fast it forgets; for each rate one, if it has several."""

    kind: WalkKind
    hops: int
    decay: float | tuple[float, ...]
    """λ of `decay`, α of `transition`, per second; `count` forgets nothing."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(WalkKind):
            raise InputError(f"walk {self.kind!r} is unknown; choose one of {', '.join(get_args(WalkKind))}")
        if self.hops < 1:
            raise InputError(f"hops is {self.hops}, but a walk has at least 1; raise it")
        for rate in self.rates:
            if not 0 <= rate < math.inf:
                raise InputError(
                    f"decay is {rate}, but must be a finite number of at least 0; 0 forgets nothing"
                )
        if self.timescales != 1 and self.kind != "decay":
            raise InputError(
                f"decay is {self.decay}, but {self.kind} walks have one timescale; give one number, or "
                "choose decay walks"
            )

    @property
    def rates(self) -> tuple[float, ...]:
        """Return how fast layers of each timescale fade, as the rates were given."""
        return self.decay if isinstance(self.decay, tuple) else (self.decay,)

    @property
    def timescales(self) -> int:
        return len(self.rates)

    @property
    def layers(self) -> int:
        return 1 + self.hops * self.timescales

    @property
    def keeps_degree(self) -> bool:
        return self.kind == "transition"

    @cached_property
    def rules(self) -> LayerRules:
        hop_L, scale_L = np.divmod(np.arange(self.layers) - 1, self.timescales)
        hop_L, scale_L = hop_L + 1, np.where(hop_L < 0, 0, scale_L)
        parent_L = np.maximum(np.arange(self.layers) - self.timescales, 0)
        rate_W = np.array([0.0] if self.kind == "count" else self.rates)
        return LayerRules(parent_L, hop_L, scale_L, rate_W, self.keeps_degree)

    def read_factors(self, elapsed_A: Tensor, degree_A: Tensor | None) -> Tensor:
        """Return the factors that turn stored rows into the walk matrix's, `elapsed` after their clocks: (A,
        L)."""
        layer_L = torch.arange(self.layers, dtype=elapsed_A.dtype, device=elapsed_A.device)
        if degree_A is not None:
            # from its first event on a degree is at least 1; before that there is nothing to divide
            return torch.where(layer_L > 0, 1 / degree_A.clamp(min=1)[:, None], 1.0)
        if self.timescales == 1:
            rate = 0.0 if self.kind == "count" else self.rates[0]
            return torch.exp(-rate * elapsed_A[:, None] * layer_L)
        hop_L = torch.div(layer_L + (self.timescales - 1), self.timescales, rounding_mode="floor")
        # a number for each: a tensor of them would be copied to the device, and waited for
        faded = [elapsed_A[:, None] * -rate for rate in self.rates]
        age_AL = torch.cat([faded[0], *faded * self.hops], 1)
        return torch.exp(age_AL * hop_L)
