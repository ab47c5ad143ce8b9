"""Microbatches of a batch do not depend on the ranks, and a rank's make up its slice."""

from itertools import pairwise

import pytest

from tpnet_dist.distributed.batch_slices import BatchSlices
from tpnet_dist.events.batch_plan import slice_of


def all_ranks(wanted: int | None, num_ranks: int, device_type: str = "cpu") -> list[BatchSlices]:
    return [BatchSlices.of(wanted, rank, num_ranks, device_type) for rank in range(num_ranks)]


@pytest.mark.parametrize("num_events", [0, 1, 3, 50, 199, 200, 201])
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4, 5, 6, 7, 8, 9])
def test_the_microbatches_of_ranks_make_up_their_slices_and_these_the_batch(
    num_ranks: int, num_events: int
) -> None:
    ranks = all_ranks(8, num_ranks)
    for slices in ranks:
        mine, whole = slices.microbatches(num_events), slices.slice_of(num_events)
        assert len(mine) == len(slices.numbers) >= 1
        assert all(before.stop == after.start for before, after in pairwise(mine))
        assert (mine[0].start, mine[-1].stop) == (whole.start, whole.stop)
        assert max(part.stop - part.start for part in mine) <= slices.largest_microbatch(num_events)
    wholes = [slices.slice_of(num_events) for slices in ranks]
    assert (wholes[0].start, wholes[-1].stop) == (0, num_events)
    assert all(before.stop == after.start for before, after in pairwise(wholes))
    assert max(each.stop - each.start for each in wholes) == ranks[0].largest_slice(num_events)


@pytest.mark.parametrize("wanted", [1, 8])
@pytest.mark.parametrize("num_ranks", [1, 2, 4, 8])
def test_ranks_that_can_share_evenly_have_even_slices(num_ranks: int, wanted: int) -> None:
    for slices in all_ranks(wanted, num_ranks):
        here = slices.slice_of(201)
        assert (here.start, here.stop) == slice_of(0, 201, slices.rank, num_ranks)


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
def test_up_to_four_ranks_have_the_same_microbatches(num_ranks: int) -> None:
    dealt = [part for slices in all_ranks(None, num_ranks) for part in slices.microbatches(10)]
    assert dealt == [slice(0, 2), slice(2, 5), slice(5, 7), slice(7, 10)]


@pytest.mark.parametrize(
    ("num_ranks", "dealt"), [(3, [4, 2, 2]), (5, [2, 2, 2, 1, 1]), (6, [2, 1, 1, 2, 1, 1]), (9, [1] * 9)]
)
def test_ranks_have_whole_branches(num_ranks: int, dealt: list[int]) -> None:
    ranks = all_ranks(8, num_ranks)
    assert [len(slices.numbers) for slices in ranks] == dealt
    for slices in ranks:
        # a branch of so many begins at a multiple of it
        assert len(slices.numbers).bit_count() == 1
        assert slices.numbers.start % len(slices.numbers) == 0
        assert slices.most_microbatches == max(dealt)
        assert slices.are_even == (len(set(dealt)) == 1)


def test_more_ranks_than_microbatches_and_gpus_have_one_each() -> None:
    assert BatchSlices.of(None, 0, 8, "cpu").num_microbatches == 8
    assert BatchSlices.of(1, 0, 3, "cpu").num_microbatches == 3
    assert BatchSlices.of(None, 0, 3, "cuda").num_microbatches == 3
    assert BatchSlices.of(None, 0, 1, "cpu").num_microbatches == 4
    assert BatchSlices.of(None, 0, 2, "cuda").num_microbatches == 2
    assert BatchSlices.of(4, 0, 2, "cuda").num_microbatches == 4
