"""Portions of a batch do not depend on the ranks, and a rank's make up its slice."""

from itertools import pairwise

import pytest

from tpnet_dist.events.batch_plan import slice_of
from tpnet_dist.ranks.portions import Portions


@pytest.mark.parametrize("num_events", [0, 1, 3, 50, 199, 200, 201])
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4, 8])
def test_the_portions_of_a_rank_make_up_its_slice(num_ranks: int, num_events: int) -> None:
    for rank in range(num_ranks):
        mine = Portions.of(8, rank, num_ranks, "cpu").mine(num_events)
        assert all(before.stop == after.start for before, after in pairwise(mine))
        assert (mine[0].start, mine[-1].stop) == slice_of(0, num_events, rank, num_ranks)


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_ranks_that_can_share_them_have_the_same_portions(num_ranks: int) -> None:
    dealt = [part for rank in range(num_ranks) for part in Portions.of(4, rank, num_ranks, "cpu").mine(10)]
    assert dealt == [slice(0, 2), slice(2, 5), slice(5, 7), slice(7, 10)]


def test_ranks_that_cannot_share_them_and_gpus_have_one_each() -> None:
    assert Portions.of(4, 0, 3, "cpu").count == 3
    assert Portions.of(None, 0, 8, "cpu").count == 8
    assert Portions.of(None, 0, 1, "cpu").count == 4
    assert Portions.of(None, 0, 2, "cuda").count == 2
    assert Portions.of(4, 0, 2, "cuda").count == 4
