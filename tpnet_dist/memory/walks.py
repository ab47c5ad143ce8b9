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

Shape letters: N nodes or events, L layers (hops + 1).
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from tpnet_dist.errors import InputError

WalkKind = Literal["decay", "count", "transition"]


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
            raise InputError(f"decay is {self.decay}, but must be a finite number of at least 0; change it")

    @property
    def layers(self) -> int:
        return self.hops + 1

    @property
    def keeps_degree(self) -> bool:
        return self.kind == "transition"

    @property
    def forgets(self) -> bool:
        """Whether factors differ from 1 at all; where not, whole passes are left out."""
        return self.kind != "count" and self.decay > 0

    def event_weight(self, age_N: Tensor) -> Tensor:
        """How much an event counts that lies `age` before the clock it is added on."""
        return torch.exp(-self.decay * age_N) if self.forgets else torch.ones_like(age_N)

    def read_factors(self, elapsed_N: Tensor, degree_N: Tensor) -> Tensor:
        """Factors that turn stored rows into the walk matrix's rows, `elapsed` after their clock."""
        if self.kind == "transition":
            # a node without events has zero rows: any finite factor serves
            normal_N = torch.where(degree_N > 0, 1 / degree_N, torch.zeros_like(degree_N))
            factors_NL = normal_N[:, None].repeat(1, self.layers)
            factors_NL[:, 0] = 1
            return factors_NL
        return self._decayed(elapsed_N)

    def carry_factors(self, elapsed_N: Tensor) -> Tensor:
        """Factors that move a stored row to a clock `elapsed` later."""
        if self.kind == "transition":
            factors_NL = self.event_weight(elapsed_N)[:, None].repeat(1, self.layers)
            factors_NL[:, 0] = 1
            return factors_NL
        return self._decayed(elapsed_N)

    def _decayed(self, elapsed_N: Tensor) -> Tensor:
        if not self.forgets:
            return torch.ones(len(elapsed_N), self.layers, dtype=elapsed_N.dtype, device=elapsed_N.device)
        layer_L = torch.arange(self.layers, dtype=elapsed_N.dtype, device=elapsed_N.device)
        return torch.exp(-self.decay * elapsed_N[:, None] * layer_L)
