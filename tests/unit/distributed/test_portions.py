"""Portions of a batch do not depend on the ranks, and a rank's make up its slice."""

from itertools import pairwise

import pytest

from tpnet_dist.distributed.portions import Portions
from tpnet_dist.events.batch_plan import slice_of


def all_ranks(wanted: int | None, num_ranks: int, device_type: str = "cpu") -> list[Portions]:
    return [Portions.of(wanted, rank, num_ranks, device_type) for rank in range(num_ranks)]


@pytest.mark.parametrize("num_events", [0, 1, 3, 50, 199, 200, 201])
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4, 5, 6, 7, 8, 9])
def test_the_portions_of_ranks_make_up_their_slices_and_these_the_batch(
    num_ranks: int, num_events: int
) -> None:
    ranks = all_ranks(8, num_ranks)
    for portions in ranks:
        mine, whole = portions.mine(num_events), portions.slice_of(num_events)
        assert len(mine) == len(portions.numbers) >= 1
        assert all(before.stop == after.start for before, after in pairwise(mine))
        assert (mine[0].start, mine[-1].stop) == (whole.start, whole.stop)
        assert max(part.stop - part.start for part in mine) <= portions.largest(num_events)
    slices = [portions.slice_of(num_events) for portions in ranks]
    assert (slices[0].start, slices[-1].stop) == (0, num_events)
    assert all(before.stop == after.start for before, after in pairwise(slices))
    assert max(each.stop - each.start for each in slices) == ranks[0].largest_slice(num_events)


@pytest.mark.parametrize("wanted", [1, 8])
@pytest.mark.parametrize("num_ranks", [1, 2, 4, 8])
def test_ranks_that_can_share_evenly_have_even_slices(num_ranks: int, wanted: int) -> None:
    for portions in all_ranks(wanted, num_ranks):
        here = portions.slice_of(201)
        assert (here.start, here.stop) == slice_of(0, 201, portions.rank, num_ranks)


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
def test_up_to_four_ranks_have_the_same_portions(num_ranks: int) -> None:
    dealt = [part for portions in all_ranks(None, num_ranks) for part in portions.mine(10)]
    assert dealt == [slice(0, 2), slice(2, 5), slice(5, 7), slice(7, 10)]


@pytest.mark.parametrize(
    ("num_ranks", "dealt"), [(3, [4, 2, 2]), (5, [2, 2, 2, 1, 1]), (6, [2, 1, 1, 2, 1, 1]), (9, [1] * 9)]
)
def test_ranks_have_whole_branches(num_ranks: int, dealt: list[int]) -> None:
    ranks = all_ranks(8, num_ranks)
    assert [len(portions.numbers) for portions in ranks] == dealt
    for portions in ranks:
        # a branch of so many begins at a multiple of it
        assert len(portions.numbers).bit_count() == 1
        assert portions.numbers.start % len(portions.numbers) == 0
        assert portions.most_per_rank == max(dealt)
        assert portions.are_even == (len(set(dealt)) == 1)
        assert all(portions.rank_of[number] == portions.rank for number in portions.numbers)


def test_more_ranks_than_portions_and_gpus_have_one_each() -> None:
    assert Portions.of(None, 0, 8, "cpu").count == 8
    assert Portions.of(1, 0, 3, "cpu").count == 3
    assert Portions.of(None, 0, 3, "cuda").count == 3
    assert Portions.of(None, 0, 1, "cpu").count == 4
    assert Portions.of(None, 0, 2, "cuda").count == 2
    assert Portions.of(4, 0, 2, "cuda").count == 4
