"""Which neighbour slots are worked on, and which token each place of a sequence takes.

A link is scored from two sequences of M tokens, one for each end. The sequence of the source depends on the
destination too, so an event has 2C of them: for each destination the source's, then for each its own. Empty
slots do not get a token of their own: profile `paper` puts zeros there, and in profile `published` all empty
slots of an end hold the same, so the first stands for all.

    M = 3, one destination; the source has neighbours a and b, the destination has none

    slots           · a b   · · ·
    `paper`         computes a b; the sequences are 0 a b and 0 0 0
    `published`     computes · a b and one · of the destination; the sequences are · a b and · · ·

There are Z = B·2C sequences.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class TokenSlots:
    """Computed slots, and how J·C tokens of sources, Y of destinations and a zero make up the sequences."""

    source_J: Tensor
    """Positions in (B, M), flat."""
    target_Y: Tensor
    """Positions in (B, C, M), flat."""
    token_MZ: Tensor
    """For each slot of each sequence, which of the J·C + Y + 1 tokens; the last is the zero."""

    @classmethod
    def of(cls, neighbor_mask_BSM: Tensor, *, mask_empty: bool) -> "TokenSlots":
        num_targets = neighbor_mask_BSM.shape[1] - 1
        computed_BSM = neighbor_mask_BSM.clone()
        if not mask_empty:
            # empty slots come first
            computed_BSM[..., 0] = True
        source_J = computed_BSM[:, 0].flatten().nonzero().squeeze(1)
        target_Y = computed_BSM[:, 1:].flatten().nonzero().squeeze(1)
        num_source_tokens = len(source_J) * num_targets
        zero = num_source_tokens + len(target_Y)

        # of a source's slot the token for the first destination; the others' follow it
        token_BSM = torch.full_like(computed_BSM, zero, dtype=torch.int64)
        token_BSM[:, 0][computed_BSM[:, 0]] = torch.arange(
            0, num_source_tokens, num_targets, device=token_BSM.device
        )
        token_BSM[:, 1:][computed_BSM[:, 1:]] = torch.arange(num_source_tokens, zero, device=token_BSM.device)
        if not mask_empty:
            token_BSM = torch.where(neighbor_mask_BSM, token_BSM, token_BSM[..., :1])
        return cls(source_J, target_Y, _tokens_of_sequences(token_BSM, zero))

    def to(self, device: torch.device) -> "TokenSlots":
        moved = (each.to(device, non_blocking=True) for each in (self.source_J, self.target_Y, self.token_MZ))
        return TokenSlots(*moved)

    def sequences(self, tokens_K: Tensor) -> Tensor:
        """(J·C + Y + 1, K) → (M, Z, K)."""
        return tokens_K.index_select(0, self.token_MZ.flatten()).view(*self.token_MZ.shape, tokens_K.shape[1])


def _tokens_of_sequences(token_BSM: Tensor, zero: int) -> Tensor:
    first_B1M, target_BCM = token_BSM[:, :1], token_BSM[:, 1:]
    destination_C1 = torch.arange(target_BCM.shape[1], device=token_BSM.device)[:, None]
    source_BCM = torch.where(first_B1M == zero, zero, first_B1M + destination_C1)
    return torch.cat([source_BCM, target_BCM], 1).flatten(0, 1).t()
