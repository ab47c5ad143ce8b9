"""Which events of a timestamp batch each rank scores, and in which microbatches.

Floating-point sums depend on their order. So a batch is cut into as many microbatches whatever the number of
ranks, and a rank's slice is made of whole ones: what is computed of a microbatch is the same on any rank, and
gradients are added in a fixed order, neighbours first, then pairs of them. Ranks have whole branches of this
tree. Then one to four ranks agree to the last bit.

    eight events, 4 microbatches    0 1 | 2 3 | 4 5 | 6 7
    one rank                        a sum of each, ((0 1) + (2 3)) + ((4 5) + (6 7))
    two ranks                       (0 1) + (2 3) here and (4 5) + (6 7) there, then both
    three ranks                     (0 1) + (2 3) on the first, (4 5) and (6 7) on the others: they meet first

So three ranks take as long as two: the first has half of the work. With more ranks than microbatches each has
one of its own, all about equal, and roundings differ. On GPUs gradients are added in whatever order kernels
come to, so more microbatches would only cost time: there is one for each rank.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from tpnet_dist.distributed.blocks import even_borders

DEFAULT_MICROBATCHES = 4
"""The number of microbatches on a host: as many as the machine of the paper would run ranks."""


@dataclass(frozen=True)
class BatchSlices:
    """How the events of every batch are shared out; this rank's share is its slice."""

    rank: int
    num_ranks: int
    num_microbatches: int
    """The number of microbatches of the whole batch, on all ranks."""

    @classmethod
    def of(cls, wanted: int | None, rank: int, num_ranks: int, device_type: str) -> "BatchSlices":
        """Share out batches. `wanted`: a power of two, None for what serves the device; there is at least one
        for each rank."""
        if wanted is None:
            wanted = DEFAULT_MICROBATCHES if device_type == "cpu" else num_ranks
        return cls(rank, num_ranks, max(wanted, num_ranks))

    @cached_property
    def _borders(self) -> list[int]:
        """Return the number of each rank's first microbatch, and last the number of all microbatches."""
        return [0, *accumulate(_counts(self.num_microbatches, self.num_ranks))]

    @property
    def numbers(self) -> range:
        """The numbers of this rank's microbatches."""
        return range(*self._borders[self.rank : self.rank + 2])

    @property
    def most_microbatches(self) -> int:
        """Return how many microbatches the busiest rank has."""
        return max(_counts(self.num_microbatches, self.num_ranks))

    @property
    def are_even(self) -> bool:
        return self.most_microbatches * self.num_ranks == self.num_microbatches

    def microbatches(self, num_events: int) -> list[slice]:
        """Return this rank's microbatches of a batch of so many events, together its slice; some may be
        empty."""
        borders = even_borders(num_events, self.num_microbatches)
        return [slice(*borders[number : number + 2]) for number in self.numbers]

    def slice_of(self, num_events: int) -> slice:
        """Return this rank's slice of a batch of so many events."""
        borders = even_borders(num_events, self.num_microbatches)
        return slice(borders[self.numbers.start], borders[self.numbers.stop])

    def largest_microbatch(self, num_events: int) -> int:
        return -(-num_events // self.num_microbatches)

    def largest_slice(self, num_events: int) -> int:
        """Return the number of events that the busiest rank scores."""
        borders = even_borders(num_events, self.num_microbatches)
        firsts = [borders[number] for number in self._borders]
        return max(stop - start for start, stop in pairwise(firsts))


def _counts(num_microbatches: int, num_ranks: int) -> list[int]:
    """Return how many microbatches each rank gets: a whole branch of the tree in which gradients are
    added."""
    if num_ranks == num_microbatches:
        return [1] * num_ranks
    if num_ranks == 1:
        return [num_microbatches]
    half = num_microbatches // 2
    return [*_counts(half, num_ranks // 2), *_counts(half, num_ranks - num_ranks // 2)]
