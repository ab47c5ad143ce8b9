"""The pool of ranks tells what went wrong, where, and goes on working."""

import os

import pytest
import torch

from benchmarks.rank_pool import RankFailure, RankPool, RankPools
from tpnet_dist.distributed.world import World


def who_am_i(world: World) -> tuple[int, int, int, int]:
    return world.rank, world.num_ranks, torch.get_num_threads(), os.getpid()


def stumble(world: World, at: int) -> None:
    if world.rank == at:
        raise ValueError(f"stumbled at {at}")
    world.new_exchange()


def die(world: World, at: int) -> None:
    if world.rank == at:
        os._exit(7)
    world.new_exchange()


def wait_for_nobody(world: World) -> None:
    if world.rank == 0:
        world.new_exchange()


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
def test_ranks_are_processes_of_one_thread_that_serve_again_and_again(
    rank_pools: RankPools, num_ranks: int
) -> None:
    first, second = (rank_pools[num_ranks].run(who_am_i) for _ in range(2))
    assert first == second
    assert [(rank, count, threads) for rank, count, threads, _ in first] == [
        (rank, num_ranks, 1) for rank in range(num_ranks)
    ]
    assert len({process for *_, process in first} | {os.getpid()}) == num_ranks + 1


def test_a_failing_rank_shows_its_traceback_and_the_pool_recovers(rank_pools: RankPools) -> None:
    """A pool of its own, from the server of the others."""
    pool = RankPool(2, start_method="forkserver")
    try:
        assert [rank for rank, *_ in pool.run(who_am_i)] == [0, 1]
        with pytest.raises(RankFailure, match=r"still at work: ranks \[0\] of 2"):
            pool.run(wait_for_nobody, seconds=2.0)
        with pytest.raises(RankFailure, match=r"rank 1 of 2 raised(.|\n)*in stumble(.|\n)*stumbled at 1"):
            pool.run(stumble, 1)
        with pytest.raises(RankFailure, match=r"rank 0 of 2 ended with exit code 7"):
            pool.run(die, 0)
    finally:
        pool.close()
