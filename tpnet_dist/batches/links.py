"""Links of a rank's slice of a timestamp batch, with all that can be known before the memory is asked."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tpnet_dist.models.common.sent import ON_HOST, sent_tensors, with_sent_tensors
from tpnet_dist.models.link_batch import Hop, LinkBatch


@dataclass(frozen=True)
class PlannedLinks:
    """What the model is asked, but for rows: a batch for each block of links, and what the blocks share."""

    events_B: Tensor = field(metadata=ON_HOST)
    """The events of the slice, by their numbers in the log."""
    read_time_B: Tensor
    """The times at which rows are read, in seconds since the log's first event."""
    nodes_U: Tensor = field(metadata=ON_HOST)
    """The distinct nodes of all blocks, sorted."""
    node_features_UF: Tensor | None
    blocks: tuple[LinkBatch, ...]
    """Batches without what they share. Block 0 holds the events themselves as the links of ends 0 and 1;
    every other link is a negative."""
    hops: tuple[Hop, ...]
    """Neighbours of neighbours and so on, of all blocks."""
    microbatches: tuple[slice, ...]
    """The events of these that each microbatch has; some may be empty."""

    def __len__(self) -> int:
        return len(self.events_B)

    def batches(self) -> list[LinkBatch]:
        """Return each block's batch with what the blocks share, but for rows."""
        return [
            replace(batch, node_features_UF=self.node_features_UF, hops=self.hops) for batch in self.blocks
        ]

    def tensors(self) -> list[Tensor]:
        """Return the tensors that go to a device."""
        return sent_tensors(self)

    def at(self, tensors: Sequence[Tensor]) -> "PlannedLinks":
        return with_sent_tensors(self, tensors)


def with_places(
    batches: Sequence[LinkBatch], hops: Sequence[Hop]
) -> tuple[Tensor, tuple[LinkBatch, ...], tuple[Hop, ...]]:
    """Return the distinct nodes of what names nodes by ids, and the same with places among them."""
    named = [ids for batch in batches for ids in (batch.ends_BS, batch.neighbors_BSM)]
    named += [ids for hop in hops for ids in (hop.nodes_V, hop.neighbors_VM)]
    nodes_U, place = torch.unique(torch.cat([ids.flatten() for ids in named]), return_inverse=True)
    parts = place.split_with_sizes([ids.numel() for ids in named])
    places = iter([part.view(ids.shape) for part, ids in zip(parts, named, strict=True)])
    placed = [replace(batch, ends_BS=next(places), neighbors_BSM=next(places)) for batch in batches]
    placed_hops = [replace(hop, nodes_V=next(places), neighbors_VM=next(places)) for hop in hops]
    return nodes_U, tuple(placed), tuple(placed_hops)
