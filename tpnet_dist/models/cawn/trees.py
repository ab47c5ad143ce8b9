"""The trees of interactions that walks go along, and how often walks pass each node.

The tree of an end has M ^ h slots at hop h: the end itself, its interactions, then those of each neighbour
before its own interaction, and so on. A walk is a slot of the last hop with all that leads to it. Trees are
those of E ends of events.

CAWN tells nodes by how often walks from either end of a link pass them. So a source has as many sides as its
event has links: an event has 2C sides, for each link the source's, then for each the destination's. There
are Z = B·2C of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tpnet_dist.models.link_batch import LinkBatch


@dataclass(frozen=True)
class TreeHop:
    """The slots of one hop of each end's tree."""

    place_EM: Tensor
    """The place of each slot's node among the U of the batch."""
    mask_EM: Tensor
    """True where a slot is filled; on the host."""
    repeats_EM: Tensor
    """Whether the slot holds what the slot before it does; on the host."""
    elapsed_EM: Tensor
    """Time from the interaction to the query; since the log's time 0 in empty slots."""
    edge_features_EMF: Tensor | None

    @property
    def slots(self) -> int:
        return self.place_EM.shape[1]


def trees_of(batch: LinkBatch) -> list[TreeHop]:
    """Return the hops of all trees, the ends themselves first."""
    ends_E1 = batch.ends_BS.flatten()[:, None]
    all_E1 = torch.ones(ends_E1.shape, dtype=torch.bool)
    now_E1 = torch.zeros(ends_E1.shape, dtype=batch.elapsed_BSM.dtype, device=ends_E1.device)
    edges, rows = batch.edge_features_BSMF, batch.hop_rows_BSM
    repeats, mask_EM = batch.repeats_BSM, batch.neighbor_mask_BSM.flatten(0, 1)
    trees = [
        TreeHop(ends_E1, all_E1, ~all_E1, now_E1, None),
        TreeHop(
            batch.neighbors_BSM.flatten(0, 1),
            mask_EM,
            torch.zeros_like(mask_EM) if repeats is None else repeats.flatten(0, 1),
            batch.elapsed_BSM.flatten(0, 1),
            None if edges is None else edges.flatten(0, 1),
        ),
    ]
    rows_EM = None if rows is None else rows.flatten(0, 1)
    for hop in batch.hops:
        assert rows_EM is not None, "slots of a hop refer to rows of the next"
        row_EM = rows_EM.to(ends_E1.device, non_blocking=True)
        edges, mask_EM = hop.edge_features_VMF, hop.mask_VM[rows_EM].flatten(1)
        elapsed_EM = trees[-1].elapsed_EM[..., None] + hop.elapsed_VM[row_EM]
        trees.append(
            TreeHop(
                hop.neighbors_VM[row_EM].flatten(1),
                mask_EM,
                torch.zeros_like(mask_EM),
                elapsed_EM.flatten(1),
                None if edges is None else edges[row_EM].flatten(1, 2),
            )
        )
        rows_EM = None if hop.rows_VM is None else hop.rows_VM[rows_EM].flatten(1)
    return trees


@dataclass(frozen=True)
class Landings:
    """How often walks pass the nodes in each slot, as one number: those of the side's own tree, and those of
    the other end's. Counts of all hops are the digits of a code."""

    own_ZM: Tensor
    other_ZM: Tensor


def landings_of(trees: Sequence[TreeHop], sides: "Sides") -> list[Landings]:
    """Count, for each hop, how often walks pass the nodes in its slots; zero in empty slots."""
    device = trees[0].place_EM.device
    masks = [hop.mask_EM.to(device, non_blocking=True) for hop in trees]
    # sorted, so that counting is two bisections
    sorted_trees = [
        torch.where(mask_EM, hop.place_EM, -1).sort(1).values
        for hop, mask_EM in zip(trees, masks, strict=True)
    ]
    own_Z, other_Z = sides.end_Z.to(device), sides.other_end_Z.to(device)
    landings = []
    for hop, mask_EM in zip(trees, masks, strict=True):
        own_EM = _codes(hop.place_EM, sorted_trees) * mask_EM
        place_ZM, mask_ZM = hop.place_EM[own_Z], mask_EM[own_Z]
        other_ZM = _codes(place_ZM, [tree_EM[other_Z] for tree_EM in sorted_trees]) * mask_ZM
        landings.append(Landings(own_EM[own_Z], other_ZM))
    return landings


def _codes(place_ZM: Tensor, sorted_trees: Sequence[Tensor]) -> Tensor:
    code_ZM, weight = torch.zeros_like(place_ZM), 1
    for tree_ZM in sorted_trees:
        tree_ZM = tree_ZM.contiguous()
        place_ZM = place_ZM.contiguous()
        below_ZM = torch.searchsorted(tree_ZM, place_ZM)
        count_ZM = torch.searchsorted(tree_ZM, place_ZM, right=True) - below_ZM
        code_ZM += weight * count_ZM
        weight *= tree_ZM.shape[1] + 1
    return code_ZM


def num_codes(neighbors: int, walk_length: int) -> int:
    count = 1
    for hop in range(walk_length + 1):
        count *= neighbors**hop + 1
    return count


def probabilities_of(codes: Tensor, neighbors: int, walk_length: int) -> Tensor:
    """Return the share of walks that pass at each hop: (…, hops + 1)."""
    shares = []
    for hop in range(walk_length + 1):
        slots = neighbors**hop
        shares.append((codes % (slots + 1)) / slots)
        codes = codes // (slots + 1)
    return torch.stack(shares, -1)


@dataclass(frozen=True)
class Sides:
    """The number of each side of each link among the E ends, and of the side's other end; on the host."""

    end_Z: Tensor
    other_end_Z: Tensor

    @classmethod
    def of(cls, num_events: int, num_ends: int) -> "Sides":
        event_B1 = torch.arange(num_events)[:, None] * num_ends
        source_BC = event_B1.expand(-1, num_ends - 1)
        target_BC = event_B1 + torch.arange(1, num_ends)
        end_Z = torch.cat([source_BC, target_BC], 1).flatten()
        return cls(end_Z, torch.cat([target_BC, source_BC], 1).flatten())


@dataclass(frozen=True)
class Tokens:
    """The distinct interactions of one hop of the sides' trees; on the host but for `to`."""

    side_T: Tensor
    slot_T: Tensor
    parent_T: Tensor
    """The token of the hop before that leads to this one."""
    of_slot_ZM: Tensor
    """For each slot, the token that ends the walk through it: counted on from hop to hop, and of an earlier
    hop where the slot is empty."""


def tokens_of(trees: Sequence[TreeHop], sides: Sides) -> list[Tokens]:
    """Return the tokens of each hop; those of the first are the sides themselves."""
    num_sides = len(sides.end_Z)
    side_Z = torch.arange(num_sides)
    none_Z = torch.zeros_like(side_Z)
    tokens = [Tokens(side_Z, none_Z, none_Z, side_Z[:, None])]
    begin, first_of_hop = num_sides, 0
    for hop in trees[1:]:
        new_ZM = (hop.mask_EM & ~hop.repeats_EM)[sides.end_Z]
        side_T, slot_T = new_ZM.nonzero(as_tuple=True)
        before_ZM = tokens[-1].of_slot_ZM.repeat_interleave(hop.slots // tokens[-1].of_slot_ZM.shape[1], 1)
        # repeats come after what they repeat
        number_ZM = begin + new_ZM.flatten().cumsum(0).view(new_ZM.shape) - 1
        of_slot_ZM = torch.where(hop.mask_EM[sides.end_Z], number_ZM, before_ZM)
        parent_T = before_ZM[side_T, slot_T] - first_of_hop
        tokens.append(Tokens(side_T, slot_T, parent_T, of_slot_ZM))
        first_of_hop, begin = begin, begin + len(side_T)
    return tokens
