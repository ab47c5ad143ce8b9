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

Shape letters: N nodes or events, L layers (hops + 1), T terms of sums.
"""

from dataclasses import dataclass
from itertools import accumulate, repeat
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tpnet_dist.errors import InputError

WalkKind = Literal["decay", "count", "transition"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Walk:
    """One walk matrix: its kind, how many hops, how fast it forgets."""

    kind: WalkKind
    hops: int
    decay: float
    """λ of `decay`, α of `transition`, per second; `count` forgets nothing."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(WalkKind):
            raise InputError(f"walk {self.kind!r} is unknown; choose one of {', '.join(get_args(WalkKind))}")
        if self.hops < 1:
            raise InputError(f"hops is {self.hops}, but a walk has at least 1; raise it")
        if not 0 <= self.decay < float("inf"):
            raise InputError(
                f"decay is {self.decay}, but must be a finite number of at least 0; 0 forgets nothing"
            )

    @property
    def layers(self) -> int:
        return self.hops + 1

    @property
    def keeps_degree(self) -> bool:
        return self.kind == "transition"

    def read_factors(self, elapsed_N: Tensor, degree_N: Tensor | None) -> Tensor:
        """Factors that turn stored rows into the walk matrix's, `elapsed` after their clocks: (N, L)."""
        layer_L = torch.arange(self.layers, dtype=elapsed_N.dtype, device=elapsed_N.device)
        if degree_N is not None:
            # from its first event on a degree is at least 1; before that there is nothing to divide
            return torch.where(layer_L > 0, 1 / degree_N.clamp(min=1)[:, None], 1.0)
        return torch.exp(-self._rate * elapsed_N[:, None] * layer_L)

    def event_weights(self, age_N: Floats) -> Floats:
        """How much events count that lie `age` before the clocks they are added on."""
        return np.exp(-self._rate * age_N)

    def message_weights(self, age_T: Floats, elapsed_T: Floats, degree_T: Floats | None) -> list[Floats]:
        """Of messages that read layers 0 … k−1 of rows, `elapsed` after their clocks."""
        weight_T = self.event_weights(age_T)
        if degree_T is not None:
            return [weight_T, *[weight_T / np.maximum(degree_T, 1)] * (self.hops - 1)]
        decay_T = np.exp(-self._rate * elapsed_T)
        return list(accumulate(repeat(decay_T, self.hops - 1), np.multiply, initial=weight_T))

    def carry_weights(self, elapsed_T: Floats) -> list[Floats]:
        """What moves layers 1 … k of rows to clocks `elapsed` later."""
        decay_T = np.exp(-self._rate * elapsed_T)
        if self.keeps_degree:
            return [decay_T] * self.hops
        return list(accumulate(repeat(decay_T, self.hops), np.multiply))

    @property
    def _rate(self) -> float:
        return 0.0 if self.kind == "count" else self.decay
