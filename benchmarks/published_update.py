"""The published update as the released code carries it out, for whoever competes with it.

The released code keeps one table for each layer, and for every batch makes a new one of each: the old one
times its decay. So a batch reads and writes every row, and the new tables come from the system as fresh
memory. `LiteralMemory` decays its tables in place, which costs less; its numbers are the same, to the bit.
"""

import math

from torch import Tensor

from reference.literal import LiteralMemory


class PublishedUpdate(LiteralMemory):
    """The published update of the walk `decay`; its methods are those of `LiteralMemory`."""

    def __init__(self, projection_ND: Tensor, hops: int, decay: float) -> None:
        num_nodes, width = projection_ND.shape
        super().__init__(num_nodes, width, hops, decay, "decay", projection_ND)

    def _decay_all_rows(self, gap: float) -> None:
        for layer in range(1, self.hops + 1):
            self.layers_ND[layer] = self.layers_ND[layer] * math.exp(-self.decay * layer * gap)
