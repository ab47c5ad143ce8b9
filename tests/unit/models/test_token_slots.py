"""Which slots are computed, and what the sequences are made of: the module's example, and more."""

import torch

from tpnet_dist.models.tpnet.token_slots import TokenSlots

NONE, TWO, ALL = [False] * 3, [False, True, True], [True] * 3


def sequences(slots: TokenSlots) -> list[list[int]]:
    return slots.token_MZ.t().tolist()


def test_one_destination_masked() -> None:
    slots = TokenSlots.of(torch.tensor([[TWO, NONE]]), mask_empty=True)
    assert (slots.source_J.tolist(), slots.target_Y.tolist()) == ([1, 2], [])
    assert sequences(slots) == [[2, 0, 1], [2, 2, 2]]


def test_one_destination_with_padding_rows() -> None:
    slots = TokenSlots.of(torch.tensor([[TWO, NONE]]), mask_empty=False)
    assert (slots.source_J.tolist(), slots.target_Y.tolist()) == ([0, 1, 2], [0])
    assert sequences(slots) == [[0, 1, 2], [3, 3, 3]]


def test_a_source_has_one_token_per_destination() -> None:
    slots = TokenSlots.of(torch.tensor([[TWO, NONE, ALL]]), mask_empty=True)
    assert (slots.source_J.tolist(), slots.target_Y.tolist()) == ([1, 2], [3, 4, 5])
    assert sequences(slots) == [[7, 0, 2], [7, 1, 3], [7, 7, 7], [4, 5, 6]]


def test_events_follow_one_another() -> None:
    slots = TokenSlots.of(torch.tensor([[ALL, NONE], [NONE, TWO]]), mask_empty=True)
    assert (slots.source_J.tolist(), slots.target_Y.tolist()) == ([0, 1, 2], [4, 5])
    assert sequences(slots) == [[0, 1, 2], [5, 5, 5], [5, 5, 5], [5, 3, 4]]
