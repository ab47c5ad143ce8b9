"""What DyGFormer reads of each end: the end itself, then its latest interactions, oldest first, then nothing.

A link batch has empty slots in front. Here they come last, and each end has T places, a multiple of the patch
size: in profile `published` as many as the longest history of its timestamp batch asks for, in `corrected` as
many as that of the ends at hand.

    slots       · · a b c        c the latest interaction
    places      end a b c · ·    six of them, in patches of two

E sequences have F places together that are filled.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tpnet_dist.models.common.sent import sent
from tpnet_dist.models.link_batch import LinkBatch


@dataclass(frozen=True)
class Sequences:
    """Some sequences, each with as many places."""

    length: int
    filled_E: Tensor
    """How many places are filled, at least one; on the host."""
    place_F: Tensor
    """The filled ones, counted on from sequence to sequence."""
    node_F: Tensor
    """Which of the U nodes is there."""
    elapsed_F: Tensor
    """Time from what is there to the query."""
    slot_F: Tensor
    """Which slot of the batch's B·S·M is there; any where it is the end itself."""
    is_own_F: Tensor

    def __len__(self) -> int:
        return len(self.filled_E)

    def placed(self, values_F: Tensor, nothing: float = 0.0) -> Tensor:
        """(E, T, …)."""
        shape = (len(self) * self.length, *values_F.shape[1:])
        placed = values_F.new_full(shape, nothing).index_copy(0, self.place_F, values_F)
        return placed.view(len(self), self.length, *values_F.shape[1:])

    def pieces(self, most_places: int) -> Iterator["Sequences"]:
        """The same, some sequences at a time."""
        at_once = max(1, most_places // self.length)
        if len(self) <= at_once:
            yield self
            return
        start = 0
        for number in range(0, len(self), at_once):
            filled_E = self.filled_E[number : number + at_once]
            here = slice(start, start := start + int(filled_E.sum()))
            yield replace(
                self,
                filled_E=filled_E,
                place_F=self.place_F[here] - number * self.length,
                node_F=self.node_F[here],
                elapsed_F=self.elapsed_F[here],
                slot_F=self.slot_F[here],
                is_own_F=self.is_own_F[here],
            )


def sequences_of(batch: LinkBatch, ends: slice, length: int) -> Sequences:
    """Make the sequences of these ends of all events, event by event."""
    device, (_, num_ends, slots) = batch.ends_BS.device, batch.neighbors_BSM.shape
    filled_E = 1 + batch.neighbor_mask_BSM[:, ends].sum(2).flatten()
    # counted on the host, so that a GPU need not say how many they are
    [place_F] = (torch.arange(length) < filled_E[:, None]).flatten().nonzero(as_tuple=True)
    row_F = place_F.div(length, rounding_mode="floor")
    number_BS = torch.arange(len(batch) * num_ends).view(len(batch), num_ends)
    end_F = number_BS[:, ends].flatten()[row_F]
    is_own_F = place_F == row_F * length
    # the last slot is the latest
    slot_F = (end_F + 1) * slots - filled_E[row_F] + place_F - row_F * length
    slot_F = slot_F.masked_fill_(is_own_F, 0)
    place_F, end_F, slot_F, is_own_F = (sent(each, device) for each in (place_F, end_F, slot_F, is_own_F))
    elapsed_F, own_B = _at(batch.elapsed_BSM, slot_F), batch.own_elapsed_B
    own_F = torch.zeros_like(elapsed_F) if own_B is None else own_B.index_select(0, end_F // num_ends)
    return Sequences(
        length=length,
        filled_E=filled_E,
        place_F=place_F,
        node_F=torch.where(is_own_F, _at(batch.ends_BS, end_F), _at(batch.neighbors_BSM, slot_F)),
        elapsed_F=torch.where(is_own_F, own_F, elapsed_F),
        slot_F=slot_F,
        is_own_F=is_own_F,
    )


def nodes_of_links(source: Sequences, target: Sequences, num_targets: int) -> Tensor:
    """Return which of the U nodes is in each place of both ends of each link; −1 for none: (Z, T)."""
    return of_links(source.placed(source.node_F, -1), target.placed(target.node_F, -1), num_targets)


def of_links(of_source: Tensor, of_target: Tensor, num_targets: int) -> Tensor:
    """The source's of each link, then the destination's: (Z, …)."""
    of_target = of_target.view(-1, num_targets, *of_target.shape[1:])
    of_source = of_source[:, None].expand(-1, num_targets, *of_source.shape[1:])
    return torch.cat([of_source, of_target], 2).flatten(0, 1)


def _at(values: Tensor, place_F: Tensor) -> Tensor:
    return values.flatten().index_select(0, place_F)


@dataclass(frozen=True)
class AlikeLinks:
    """Links whose sources have as many places as one another, and whose destinations have."""

    batch: LinkBatch
    targets: list[int]
    """Which destinations of the events they are."""
    source_length: int
    target_length: int


def alike(batch: LinkBatch, patch_size: int, *, as_published: bool) -> Iterator[AlikeLinks]:
    """Yield parts of a batch by how long their sequences are; mostly it is one."""
    mask_BSM = batch.neighbor_mask_BSM
    num_ends, slots = mask_BSM.shape[1:]
    if not len(batch):
        longest = [0] * num_ends
    elif not as_published:
        longest = [int(mask_BSM.sum(2).max())] * num_ends
    else:
        longest = [slots] * num_ends if batch.longest_BS is None else batch.longest_BS[0].tolist()
    lengths = [-(-(1 + each) // patch_size) * patch_size for each in longest]
    for length in sorted(set(lengths[1:])):
        targets = [number for number, each in enumerate(lengths[1:]) if each == length]
        part = batch if len(targets) == num_ends - 1 else batch.with_targets(targets)
        yield AlikeLinks(part, targets, lengths[0], length)
