"""Which neighbour slots are worked on, and which token each place of a sequence takes.

A link is scored from two sequences of M tokens, one for each end. The sequence of the source depends on the
destination too, so an event has 2C of them: for each destination the source's, then for each its own. Empty
slots do not get a token of their own: profile `paper` puts zeros there, and in profile `published` all empty
slots of an end hold the same, so the first stands for all.

    M = 3, one destination; the source has neighbours a and b, the destination has none

    slots           · a b   · · ·
    `paper`         computes a b; the sequences are 0 a b and 0 0 0
    `published`     computes · a b and one · of the destination; the sequences are · a b and · · ·

There are Z = B·2C sequences. Compiled code is given numbers of slots from a short list, so that few shapes
recur: `padded` slots are computed and taken by no sequence.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from tpnet_dist.models.common.sent import sent, sent_tensors, with_sent_tensors
from tpnet_dist.models.link_batch import LinkBatch
from tpnet_dist.models.tpnet.pair_list import PairList


@dataclass(frozen=True)
class TokenSlots:
    """Computed slots, and how J·C tokens of sources, Y of destinations and a zero make up the sequences."""

    source_J: Tensor
    """Chosen slots of sources, as flat positions in (B, M)."""
    target_Y: Tensor
    """Chosen slots of destinations, as flat positions in (B, C, M)."""
    token_MZ: Tensor
    """The token of each slot of each sequence, among J·C + Y + 1; the last is the zero."""
    pairs: PairList | None = None
    """The pairs of these slots as one list; not made for the host."""

    @classmethod
    def for_batch(cls, query: LinkBatch, *, mask_empty: bool, padded: bool = False) -> "TokenSlots":
        """Return the slots that were prepared, or else choose them where the mask lies, which should be the
        host, and send them."""
        if isinstance(query.prepared, TokenSlots):
            return query.prepared
        mask_BSM, device = query.neighbor_mask_BSM, query.ends_BS.device
        if device.type == "cpu":
            return cls.of(mask_BSM, mask_empty=mask_empty, padded=padded)
        slots = cls.with_pairs(mask_BSM, mask_empty=mask_empty, padded=padded)
        everything = sent_tensors(slots)
        packed = sent(torch.cat([each.flatten() for each in everything]), device)
        parts = packed.split_with_sizes([each.numel() for each in everything])
        shaped = [part.view(each.shape) for part, each in zip(parts, everything, strict=True)]
        return with_sent_tensors(slots, shaped)

    @classmethod
    def with_pairs(cls, mask_BSM: Tensor, *, mask_empty: bool, padded: bool = False) -> "TokenSlots":
        """Choose the slots and list their pairs, as a device wants them."""
        slots = cls.of(mask_BSM, mask_empty=mask_empty, padded=padded)
        return replace(slots, pairs=PairList.of(slots.source_J, slots.target_Y, mask_BSM.shape))

    @classmethod
    def of(cls, neighbor_mask_BSM: Tensor, *, mask_empty: bool, padded: bool = False) -> "TokenSlots":
        num_targets = neighbor_mask_BSM.shape[1] - 1
        computed_BSM = neighbor_mask_BSM.clone()
        if not mask_empty:
            # empty slots come first
            computed_BSM[..., 0] = True
        source_J = computed_BSM[:, 0].flatten().nonzero().squeeze(1)
        target_Y = computed_BSM[:, 1:].flatten().nonzero().squeeze(1)
        num_sources, num_chosen_targets = len(source_J), len(target_Y)
        if padded and len(neighbor_mask_BSM):
            source_J, target_Y = _padded(source_J), _padded(target_Y)
        first_target = len(source_J) * num_targets
        zero = first_target + len(target_Y)

        # of a source's slot the token for the first destination; the others' follow it
        token_BSM, device = torch.full_like(computed_BSM, zero, dtype=torch.int64), computed_BSM.device
        source_token = torch.arange(0, num_sources * num_targets, num_targets, device=device)
        token_BSM[:, 0][computed_BSM[:, 0]] = source_token
        target_token = torch.arange(first_target, first_target + num_chosen_targets, device=device)
        token_BSM[:, 1:][computed_BSM[:, 1:]] = target_token
        if not mask_empty:
            token_BSM = torch.where(neighbor_mask_BSM, token_BSM, token_BSM[..., :1])
        return cls(source_J, target_Y, _tokens_of_sequences(token_BSM, zero))

    def pairs_of(self, query: LinkBatch) -> PairList:
        """Return the pairs of this batch as one list, also where it was not made before."""
        return self.pairs or PairList.of(self.source_J, self.target_Y, query.neighbors_BSM.shape)

    def sequences(self, tokens_K: Tensor) -> Tensor:
        """Arrange tokens in sequences: (J·C + Y + 1, K) → (M, Z, K)."""
        return tokens_K.index_select(0, self.token_MZ.flatten()).view(*self.token_MZ.shape, tokens_K.shape[1])


def size_class(number: int) -> int:
    """Return the next of 8, 9, … 16, 18, … 32, 36, … 64, 72, …: at most an eighth more."""
    step = 1 << max(0, (number - 1).bit_length() - 4)
    return max(8, -(-number // step) * step)


def _padded(slots_A: Tensor) -> Tensor:
    """Pad positions with the first slot, again and again, up to the next size class."""
    return F.pad(slots_A, (0, size_class(len(slots_A)) - len(slots_A)))


def _tokens_of_sequences(token_BSM: Tensor, zero: int) -> Tensor:
    first_B1M, target_BCM = token_BSM[:, :1], token_BSM[:, 1:]
    destination_C1 = torch.arange(target_BCM.shape[1], device=token_BSM.device)[:, None]
    source_BCM = torch.where(first_B1M == zero, zero, first_B1M + destination_C1)
    return torch.cat([source_BCM, target_BCM], 1).flatten(0, 1).t()
