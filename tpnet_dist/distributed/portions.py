"""Portions: the parts of a timestamp batch that sums over its events are made of.

Floating-point sums depend on their order. So a batch is cut into as many portions whatever the number of
ranks, and a rank's slice is made of whole ones: what is computed of a portion is the same on any rank, and
sums over portions are made in an order of their own, neighbours first, then pairs of them. Ranks have whole
branches of this tree. Then one to four ranks agree to the last bit.

    eight events, four portions     0 1 | 2 3 | 4 5 | 6 7
    one rank                        a sum of each, ((0 1) + (2 3)) + ((4 5) + (6 7))
    two ranks                       (0 1) + (2 3) here and (4 5) + (6 7) there, then both
    three ranks                     (0 1) + (2 3) on the first, (4 5) and (6 7) on the others: they meet first

So three ranks take as long as two: the first has half of the work. With more ranks than portions each has one
of its own, all about equal, and roundings differ. On GPUs gradients are added in whatever order kernels come
to, so more portions would only cost time: there is one for each rank.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from tpnet_dist.distributed.blocks import even_borders

DEFAULT_PORTIONS = 4
"""On a host: as many as ranks of the machine the paper used."""


@dataclass(frozen=True)
class Portions:
    """Of every batch, and which of them are this rank's."""

    rank: int
    num_ranks: int
    count: int

    @classmethod
    def of(cls, wanted: int | None, rank: int, num_ranks: int, device_type: str) -> "Portions":
        """`wanted`: a power of two, None for what serves the device; there is at least one for each rank."""
        if wanted is None:
            wanted = DEFAULT_PORTIONS if device_type == "cpu" else num_ranks
        return cls(rank, num_ranks, max(wanted, num_ranks))

    @cached_property
    def _borders(self) -> list[int]:
        """Which portion is the first of each rank, and last their number."""
        return [0, *accumulate(_dealt(self.count, self.num_ranks))]

    @property
    def numbers(self) -> range:
        """Of this rank's portions."""
        return range(*self._borders[self.rank : self.rank + 2])

    @cached_property
    def rank_of(self) -> npt.NDArray[np.int64]:
        """Who has each portion."""
        return np.arange(self.num_ranks).repeat(np.diff(self._borders))

    @property
    def most_per_rank(self) -> int:
        return max(_dealt(self.count, self.num_ranks))

    @property
    def are_even(self) -> bool:
        return self.most_per_rank * self.num_ranks == self.count

    def mine(self, num_events: int) -> list[slice]:
        """This rank's portions of a batch of so many events, together its slice; some may be empty."""
        borders = even_borders(num_events, self.count)
        return [slice(*borders[number : number + 2]) for number in self.numbers]

    def slice_of(self, num_events: int) -> slice:
        """This rank's, of a batch of so many events."""
        borders = even_borders(num_events, self.count)
        return slice(borders[self.numbers.start], borders[self.numbers.stop])

    def largest(self, num_events: int) -> int:
        return -(-num_events // self.count)

    def largest_slice(self, num_events: int) -> int:
        """Of any rank."""
        borders = even_borders(num_events, self.count)
        firsts = [borders[number] for number in self._borders]
        return max(stop - start for start, stop in pairwise(firsts))


def _dealt(num_portions: int, num_ranks: int) -> list[int]:
    """How many each rank gets: a whole branch of the tree that they are added in."""
    if num_ranks == num_portions:
        return [1] * num_ranks
    if num_ranks == 1:
        return [num_portions]
    half = num_portions // 2
    return [*_dealt(half, num_ranks // 2), *_dealt(half, num_ranks - num_ranks // 2)]
