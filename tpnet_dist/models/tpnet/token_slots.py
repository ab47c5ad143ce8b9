"""Which neighbour slots are worked on, and which token each place of a sequence takes.

A link is scored from two sequences of M tokens, one for each end. The sequence of the source depends on the
destination too, so an event has 2C of them: for each destination the source's, then for each its own. Empty
slots do not get a token of their own: profile `paper` puts zeros there, and in profile `published` all empty
slots of an end hold the same, so the first stands for all.

    M = 3, one destination; the source has neighbours a and b, the destination has none

    slots           · a b   · · ·
    `paper`         computes a b; the sequences are 0 a b and 0 0 0
    `published`     computes · a b and one · of the destination; the sequences are · a b and · · ·

Shape letters: N = B·2C sequences, R and T computed slots of sources and of destinations.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class TokenSlots:
    """Computed slots, and how R·C tokens of sources, T of destinations and a zero make up the sequences."""

    source_R: Tensor
    """Positions in (B, M), flat."""
    target_T: Tensor
    """Positions in (B, C, M), flat."""
    token_MN: Tensor
    """For each slot of each sequence, which of the R·C + T + 1 tokens; the last is the zero."""

    @classmethod
    def of(cls, neighbor_mask_BSM: Tensor, *, mask_empty: bool) -> "TokenSlots":
        num_targets = neighbor_mask_BSM.shape[1] - 1
        computed_BSM = neighbor_mask_BSM.clone()
        if not mask_empty:
            # empty slots come first
            computed_BSM[..., 0] = True
        source_R = computed_BSM[:, 0].flatten().nonzero().squeeze(1)
        target_T = computed_BSM[:, 1:].flatten().nonzero().squeeze(1)
        num_source_tokens = len(source_R) * num_targets
        zero = num_source_tokens + len(target_T)

        # of a source's slot the token for the first destination; the others' follow it
        token_BSM = torch.full_like(computed_BSM, zero, dtype=torch.int64)
        token_BSM[:, 0][computed_BSM[:, 0]] = torch.arange(
            0, num_source_tokens, num_targets, device=token_BSM.device
        )
        token_BSM[:, 1:][computed_BSM[:, 1:]] = torch.arange(num_source_tokens, zero, device=token_BSM.device)
        if not mask_empty:
            token_BSM = torch.where(neighbor_mask_BSM, token_BSM, token_BSM[..., :1])
        return cls(source_R, target_T, _tokens_of_sequences(token_BSM, zero))

    def to(self, device: torch.device) -> "TokenSlots":
        moved = (each.to(device, non_blocking=True) for each in (self.source_R, self.target_T, self.token_MN))
        return TokenSlots(*moved)

    def sequences(self, tokens_K: Tensor) -> Tensor:
        """(R·C + T + 1, K) → (M, N, K)."""
        return tokens_K.index_select(0, self.token_MN.flatten()).view(*self.token_MN.shape, tokens_K.shape[1])


def _tokens_of_sequences(token_BSM: Tensor, zero: int) -> Tensor:
    first_B1M, target_BCM = token_BSM[:, :1], token_BSM[:, 1:]
    destination_C1 = torch.arange(target_BCM.shape[1], device=token_BSM.device)[:, None]
    source_BCM = torch.where(first_B1M == zero, zero, first_B1M + destination_C1)
    return torch.cat([source_BCM, target_BCM], 1).flatten(0, 1).t()
