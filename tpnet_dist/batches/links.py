"""Links of a rank's slice of a timestamp batch, with all that can be known before the memory is asked."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LinkBlock:
    """Holds links of each event's source with its destinations; nodes are given as places in `nodes_U`."""

    ends_BS: Tensor
    neighbors_BSM: Tensor
    """Empty slots hold a node that exists."""
    mask_BSM: Tensor
    elapsed_BSM: Tensor
    """Seconds since the interaction with the neighbour."""
    edge_features_BSMF: Tensor | None
    neighbor_means_BSF: Tensor | None = None
    """Mean node feature of further neighbours, where the model asks for it."""


@dataclass(frozen=True)
class PlannedLinks:
    """Block 0 holds the events themselves as the links of ends 0 and 1; every other link is a negative."""

    events_B: Tensor
    """The events of the slice, by their numbers in the log."""
    read_time_B: Tensor
    """When rows are read, in seconds since the log's first event."""
    nodes_U: Tensor
    """The distinct nodes of all blocks, sorted."""
    node_features_UF: Tensor | None
    blocks: tuple[LinkBlock, ...]
    microbatches: tuple[slice, ...]
    """Which of these events each microbatch has; some may be empty."""

    def __len__(self) -> int:
        return len(self.events_B)


def with_places(blocks: list[LinkBlock]) -> tuple[Tensor, tuple[LinkBlock, ...]]:
    """Return the distinct nodes of blocks that name nodes by ids, and the blocks with places among them."""
    ids = [ids.flatten() for block in blocks for ids in (block.ends_BS, block.neighbors_BSM)]
    nodes_U, place = torch.unique(torch.cat(ids), return_inverse=True)
    places = iter(place.split_with_sizes([len(each) for each in ids]))
    return nodes_U, tuple(
        LinkBlock(
            **{
                **vars(block),
                "ends_BS": next(places).view(block.ends_BS.shape),
                "neighbors_BSM": next(places).view(block.neighbors_BSM.shape),
            }
        )
        for block in blocks
    )
