"""The update the study competes with: the numbers of the literal one, in a new table for every batch."""

import torch

from benchmarks.published_update import PublishedUpdate
from reference.literal import LiteralMemory

NODES, WIDTH, HOPS, DECAY = 20, 8, 3, 0.01


def test_it_has_the_numbers_of_the_literal_form_in_new_tables() -> None:
    generator = torch.Generator().manual_seed(0)
    projection_ND = torch.randn(NODES, WIDTH, generator=generator)
    literal = LiteralMemory(NODES, WIDTH, HOPS, DECAY, "decay", projection_ND)
    published = PublishedUpdate(projection_ND, HOPS, DECAY)
    for batch in range(4):
        src_B, dst_B = torch.randint(NODES, (2, 6), generator=generator)
        time_B = 10.0 * batch + torch.arange(6)
        before = list(published.layers_ND)
        literal.record(src_B, dst_B, time_B)
        published.record(src_B, dst_B, time_B)
        assert published.layers_ND[0] is before[0], "projections do not decay"
        for old_ND, new_ND in zip(before[1:], published.layers_ND[1:], strict=True):
            assert new_ND.data_ptr() != old_ND.data_ptr()
    assert torch.equal(published.rows_at(50.0), literal.rows_at(50.0))
