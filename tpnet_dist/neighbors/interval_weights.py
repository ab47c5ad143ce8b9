"""Weights of interactions for the sampler `time_interval_aware`, added up along each node's history.

CAWN's released code gives interaction i of a node, at time t_i, the weight exp(r_i) with

    r_i = exp(α t_i) / Σ_{j ≤ i} exp(α t_j)

so the first has r = 1, and one that follows many others at short intervals nearly 0. Weights do not depend on
what comes later, so they are computed once, when an index is made or grows, and a query bisects their sums
instead of weighing a whole history.

Divided by exp(α t_i) that is r_i = 1 / s_i with s_i = s_{i−1} · exp(−α (t_i − t_{i−1})) + 1, in which no
exponential overflows. The released code divides by the exponential of the node's last time, the future's
included, and so gives no weight to what lies 745 / α earlier, 24 years at its α; this one always does.
"""

import math
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

BYTES_PER_WEIGHT = 8
"""The bytes that the weight of an entry takes."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_compiled: Any = numba.njit(nogil=True, cache=True)


@dataclass(frozen=True)
class IntervalWeights:
    """The weights of the entries of an index."""

    scaling: float
    """α, per unit of the log's times."""
    until: Tensor
    """For each place in the index, the weights of its node's entries up to and with it, added up."""
    sum_N: Tensor
    """s of each node's last entry; 0 without any."""


@dataclass(frozen=True)
class RunningSums:
    """The state of some nodes' histories: s, the weights added up, and the time of the last entry."""

    sum_N: Floats
    until_N: Floats
    time_N: Floats

    @classmethod
    def none(cls, count: int) -> "RunningSums":
        return cls(np.zeros(count), np.zeros(count), np.zeros(count))


def weigh(starts: Integers, time_E: Floats, scaling: float, since: RunningSums) -> tuple[Floats, Floats]:
    """Return for each entry s and the weights added up; node n has the entries starts[n] to starts[n + 1].

    `since`: where each history stands before its first entry here.
    """
    sum_E, until_E = np.empty((2, len(time_E)))
    _weigh(starts, time_E, scaling, since.sum_N, since.until_N, since.time_N, sum_E, until_E)
    return sum_E, until_E


@_compiled
def _weigh(starts, times, scaling, first_sum, first_until, first_time, sums, until):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    for node in range(len(starts) - 1):
        total, weight, last = first_sum[node], first_until[node], first_time[node]
        for entry in range(starts[node], starts[node + 1]):
            total = total * math.exp(-scaling * (times[entry] - last)) + 1.0
            weight += math.exp(1.0 / total)
            last = times[entry]
            sums[entry], until[entry] = total, weight


def as_tensors(scaling: float, until_E: Floats, sum_N: Floats) -> IntervalWeights:
    """Return the weights of an index, whose place 0 is nobody's."""
    return IntervalWeights(
        scaling, torch.from_numpy(np.concatenate([[0.0], until_E])), torch.from_numpy(sum_N)
    )
