"""Links of a rank's slice of a timestamp batch, with all that can be known before the memory is asked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.models.link_batch import Hop, LinkBatch

LinkOrHop = TypeVar("LinkOrHop", LinkBatch, Hop)


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
    repeats_BSM: Tensor | None = None
    """Whether a slot holds the interaction of the slot before it, where the model has interactions drawn."""
    longest_BS: Tensor | None = None
    """The longest history in this place of an end, in the whole timestamp batch, where the model asks."""
    own_elapsed_B: Tensor | None = None
    """What float32 takes from the time of the query, where the model has times in float32."""
    hop_rows_BSM: Tensor | None = None
    """The row of the first of `PlannedLinks.hops` that each slot is, where the model asks for several
    hops."""


@dataclass(frozen=True)
class PlannedLinks:
    """Block 0 holds the events themselves as the links of ends 0 and 1; every other link is a negative."""

    events_B: Tensor
    """The events of the slice, by their numbers in the log."""
    read_time_B: Tensor
    """The times at which rows are read, in seconds since the log's first event."""
    nodes_U: Tensor
    """The distinct nodes of all blocks, sorted."""
    node_features_UF: Tensor | None
    blocks: tuple[LinkBlock, ...]
    hops: tuple[Hop, ...]
    """Neighbours of neighbours and so on, of all blocks. Their keys say which node at which time a row is, or
    which draw; with seed and epoch they make the keys of dropout."""
    microbatches: tuple[slice, ...]
    """The events of these that each microbatch has; some may be empty."""
    prepared: "PreparedLinks | None" = None
    """The model's input, where it was made ahead."""

    def __len__(self) -> int:
        return len(self.events_B)

    def tensors(self) -> list[Tensor]:
        """Return the tensors that go to a device."""
        return [] if self.prepared is None else self.prepared.tensors()

    def at(self, tensors: Sequence[Tensor]) -> "PlannedLinks":
        return self if self.prepared is None else replace(self, prepared=self.prepared.at(tensors))


ON_HOST = ("neighbor_mask_BSM", "longest_BS", "repeats_BSM", "hop_rows_BSM", "mask_VM", "rows_VM")
"""Fields that stay on the host, since they decide what is computed."""


@dataclass(frozen=True)
class PreparedLinks:
    """What the model is asked, but for rows: a batch for each block."""

    batches: list[LinkBatch]
    read_time_B: Tensor
    dropout: SampleKey | None
    """The key by which the keys of dropout were made."""

    def tensors(self) -> list[Tensor]:
        """Return each tensor once; blocks share some."""
        found = {id(self.read_time_B): self.read_time_B}
        for batch in self.batches:
            parts: list[LinkBatch | Hop] = [batch, *batch.hops]
            for part in parts:
                found |= {id(tensor): tensor for tensor in _sent(part).values()}
        own = [batch.prepared.tensors() for batch in self.batches if batch.prepared is not None]
        return [*found.values(), *(tensor for each in own for tensor in each)]

    def at(self, tensors: Sequence[Tensor]) -> "PreparedLinks":
        there = dict(zip(map(id, self.tensors()), tensors, strict=True))
        hops = {id(hop): _moved(hop, there) for batch in self.batches for hop in batch.hops}
        batches = []
        for batch in self.batches:
            prepared = batch.prepared and batch.prepared.at(
                [there[id(each)] for each in batch.prepared.tensors()]
            )
            moved = replace(_moved(batch, there), hops=tuple(hops[id(hop)] for hop in batch.hops))
            batches.append(replace(moved, prepared=prepared))
        return PreparedLinks(batches, there[id(self.read_time_B)], self.dropout)


def _sent(batch: LinkBatch | Hop) -> dict[str, Tensor]:
    """Return the tensors of a batch that go to the device, by name."""
    everything = vars(batch).items()
    return {name: each for name, each in everything if isinstance(each, Tensor) and name not in ON_HOST}


def _moved(batch: LinkOrHop, there: dict[int, Tensor]) -> LinkOrHop:
    moved: Any = {name: there[id(tensor)] for name, tensor in _sent(batch).items()}
    return replace(batch, **moved)


def with_places(
    blocks: list[LinkBlock], hops: Sequence[Hop]
) -> tuple[Tensor, tuple[LinkBlock, ...], tuple[Hop, ...]]:
    """Return the distinct nodes of what names nodes by ids, and the same with places among them."""
    named = [ids for block in blocks for ids in (block.ends_BS, block.neighbors_BSM)]
    named += [ids for hop in hops for ids in (hop.nodes_V, hop.neighbors_VM)]
    nodes_U, place = torch.unique(torch.cat([ids.flatten() for ids in named]), return_inverse=True)
    parts = place.split_with_sizes([ids.numel() for ids in named])
    places = iter([part.view(ids.shape) for part, ids in zip(parts, named, strict=True)])
    placed_blocks = [replace(block, ends_BS=next(places), neighbors_BSM=next(places)) for block in blocks]
    placed_hops = [replace(hop, nodes_V=next(places), neighbors_VM=next(places)) for hop in hops]
    return nodes_U, tuple(placed_blocks), tuple(placed_hops)
