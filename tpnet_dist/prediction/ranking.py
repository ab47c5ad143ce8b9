"""The k best of scored candidates, row by row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tpnet_dist.errors import InputError
from tpnet_dist.events.raw_ids import Dense
from tpnet_dist.prediction.candidates import IsThere, Targets
from tpnet_dist.prediction.link_scorer import Logits

LINKS_HELD = 1 << 20
"""Scores of several sources that are kept at a time."""


@dataclass(frozen=True)
class TopK:
    """Holds the best destinations of each source, best first."""

    destinations: npt.NDArray[Any]
    """(sources, k), by the user's ids."""
    scores: Logits
    """(sources, k), logits, unless probabilities were asked for."""
    probabilities: Logits
    """(sources, k), as `Predictor.probabilities` has them."""
    found: npt.NDArray[np.bool_]
    """(sources, k); False where fewer than k destinations were left."""


@dataclass(frozen=True)
class Best:
    """Holds the best destinations of each source, best first."""

    target_Bk: Targets
    logits_Bk: Logits
    found_Bk: IsThere

    @classmethod
    def empty(cls, num_sources: int, k: int) -> "Best":
        shape = (num_sources, k)
        return cls(np.empty(shape, np.int64), np.empty(shape, np.float32), np.empty(shape, bool))

    def fill(self, here: slice, target_BC: Targets, is_there_BC: IsThere | None, logits_BC: Logits) -> None:
        """Take the best of some sources' candidates; those that are not there come last of all."""
        k = self.target_Bk.shape[1]
        if is_there_BC is not None:
            logits_BC = np.where(is_there_BC, logits_BC, np.float32(-np.inf))
        if logits_BC.shape[1] < k:
            spare = ((0, 0), (0, k - logits_BC.shape[1]))
            logits_BC = np.pad(logits_BC, spare, constant_values=-np.inf)
            target_BC = np.pad(target_BC, spare, mode="edge" if target_BC.shape[1] else "constant")
        for row, logits_C in enumerate(logits_BC, here.start):
            places = _best(logits_C, k)
            self.target_Bk[row] = target_BC[row - here.start, places]
            self.logits_Bk[row] = logits_C[places]
        self.found_Bk[here] = np.isfinite(self.logits_Bk[here])


def everywhere(
    target_C: Dense, num_sources: int, without_B: Sequence[Dense] | None
) -> tuple[Targets, IsThere | None]:
    """Return the same candidates for each source, and which of them it is to be offered; None: all."""
    target_BC = np.broadcast_to(target_C, (num_sources, len(target_C)))
    if without_B is None or not num_sources:
        return target_BC, None
    return target_BC, np.stack([~np.isin(target_C, without) for without in without_B])


def some_at_a_time(num_sources: int, num_targets: int) -> Iterator[slice]:
    """Yield slices of sources whose scores are held at once."""
    some = max(1, LINKS_HELD // num_targets)
    return (slice(start, start + some) for start in range(0, num_sources, some))


def require_k(k: int, most: int) -> None:
    if not 1 <= k <= most:
        remedy = "raise it" if k < 1 else "lower it, or give more candidates"
        raise InputError(f"k is {k:,}, but must be within 1…{most:,}, the candidates; {remedy}")


def _best(scores_C: Logits, k: int) -> npt.NDArray[np.int64]:
    """Return the places of the k highest, highest first, earlier ones first among equals."""
    kth = np.partition(scores_C, len(scores_C) - k)[len(scores_C) - k]
    few = np.flatnonzero(scores_C >= kth)
    order: npt.NDArray[np.int64] = few[np.argsort(-scores_C[few], kind="stable")][:k]
    return order
