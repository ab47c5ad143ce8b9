"""Portions: the parts of a timestamp batch that sums over its events are made of.

Floating-point sums depend on their order. So a batch is cut into as many portions whatever the number of
ranks, and a rank's slice is made of whole ones: what is computed of a portion is the same on any rank, and
sums over portions are made in an order of their own. Then one, two and four ranks agree to the last bit.

    eight events, four portions     0 1 | 2 3 | 4 5 | 6 7
    one rank                        a sum of each, ((0 1) + (2 3)) + ((4 5) + (6 7))
    two ranks                       (0 1) + (2 3) here and (4 5) + (6 7) there, then both
    three ranks                     four portions cannot be dealt to three: one each, and other roundings

On GPUs gradients are added in whatever order kernels come to, so more portions would only cost time: there is
one for each rank.
"""

from dataclasses import dataclass

from tpnet_dist.ranks.blocks import even_borders

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
        """`wanted`: None for what serves the device. Without an equal share for all, one for each rank."""
        if wanted is None:
            wanted = DEFAULT_PORTIONS if device_type == "cpu" else num_ranks
        return cls(rank, num_ranks, num_ranks if wanted % num_ranks else wanted)

    @property
    def per_rank(self) -> int:
        return self.count // self.num_ranks

    def mine(self, num_events: int) -> list[slice]:
        """This rank's portions of a batch of so many events, together its slice; some may be empty."""
        borders, first = even_borders(num_events, self.count), self.rank * self.per_rank
        return [slice(*borders[number : number + 2]) for number in range(first, first + self.per_rank)]

    def largest(self, num_events: int) -> int:
        return -(-num_events // self.count)
