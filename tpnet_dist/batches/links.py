"""Links of a rank's slice of a timestamp batch, with all that can be known before the memory is asked.

Shape letter: E edge features.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LinkBlock:
    """Links of each event's source with its destinations; all by node id."""

    ends_BS: Tensor
    neighbors_BSM: Tensor
    """Empty slots hold a node that exists."""
    mask_BSM: Tensor
    elapsed_BSM: Tensor
    """Seconds since the interaction with the neighbour."""
    edge_features_BSME: Tensor | None
    neighbor_means_BSF: Tensor | None = None
    """Mean node feature of further neighbours, where the model asks for it."""

    def nodes(self) -> Tensor:
        return torch.cat([self.ends_BS.flatten(), self.neighbors_BSM.flatten()])


@dataclass(frozen=True)
class PlannedLinks:
    """Block 0 holds the events themselves as the links of ends 0 and 1; every other link is a negative."""

    events_B: Tensor
    """The slice's events, as numbers of the log."""
    read_time_B: Tensor
    """When rows are read, in seconds since the log's first event."""
    blocks: tuple[LinkBlock, ...]
    portions: tuple[slice, ...]
    """Which of these events each portion has; some may be empty."""

    def __len__(self) -> int:
        return len(self.events_B)

    def nodes(self) -> Tensor:
        """Of all blocks, repetitions included."""
        return torch.cat([block.nodes() for block in self.blocks])
