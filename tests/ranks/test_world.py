"""Ranks know who they are and refuse to start on different data or settings."""

from itertools import pairwise

import pytest
import torch
import torch.distributed as dist
from torch.distributed import HashStore

from benchmarks.rank_pool import RankFailure, RankPools
from tests.support.sentences import refused
from tpnet_dist.distributed.blocks import even_borders
from tpnet_dist.distributed.gather import gather_varied
from tpnet_dist.distributed.world import World, device_of, has_own_gpu, join_world
from tpnet_dist.errors import InputError
from tpnet_dist.events.batch_plan import slice_of


def agree(world: World, odd_rank: int | None) -> None:
    width = 110 if world.rank != odd_rank else 120
    world.require_agreement({"memory.width": width, "data.log_id": "abc"})


def test_ranks_with_the_same_facts_start(rank_pools: RankPools) -> None:
    assert rank_pools[4].run(agree, None) == [None] * 4


def test_a_rank_with_another_setting_is_named(rank_pools: RankPools) -> None:
    sentence = "rank 2 has memory.width = 120 where rank 0 has 110; start all ranks with the same"
    with pytest.raises(RankFailure, match=sentence):
        rank_pools[4].run(agree, 2)


def open_folder(world: World, missing_on: int | None) -> str:
    def act() -> str:
        if world.rank == missing_on:
            raise InputError("data/mine: holds no manifest")
        return f"opened by {world.rank}"

    try:
        return world.on_every_rank(act)
    except InputError as error:
        return str(error)


def test_what_one_rank_refuses_all_refuse_naming_it(rank_pools: RankPools) -> None:
    assert rank_pools[2].run(open_folder, None) == ["opened by 0", "opened by 1"]
    assert rank_pools[2].run(open_folder, 1) == ["rank 1: data/mine: holds no manifest"] * 2


def gathered(world: World, in_own_group: bool) -> list[list[int]]:
    group = dist.new_group(timeout=world.timeout) if in_own_group else None
    return [part.tolist() for part in gather_varied(torch.arange(world.rank, 3), group)]


@pytest.mark.parametrize("in_own_group", [False, True])
def test_ranks_get_what_each_has_though_they_have_not_as_much(
    rank_pools: RankPools, in_own_group: bool
) -> None:
    assert rank_pools[2].run(gathered, in_own_group) == [[[0, 1, 2], [1, 2]]] * 2


def test_a_plain_process_is_a_world_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with join_world() as world:
        assert (world.rank, world.num_ranks) == (0, 1)
        world.require_agreement({"data.log_id": "abc"})
        exchange = world.new_exchange()
        assert exchange.route([3]).recv_counts == [3]


def test_each_rank_takes_a_gpu_and_more_ranks_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_of(1, 4) == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device_of(1, 2) == torch.device("cuda", 1)
    with refused():
        device_of(1, 4)


def test_ranks_that_see_one_gpu_each_take_it_if_it_is_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """As SLURM binds them; but ranks that share the host's only GPU are too many."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert [device_of(rank, 4) for rank in range(4)] == [torch.device("cuda", 0)] * 4
    store = HashStore()
    for rank, gpu in enumerate(("host-a 1", "host-a 2", "host-b 1", "host-a 2")):
        store.set(f"gpu-{rank}", gpu)
    assert has_own_gpu(store, 0, 4, "host-a 1")
    assert has_own_gpu(store, 2, 4, "host-b 1")
    assert not has_own_gpu(store, 1, 4, "host-a 2")


@pytest.mark.parametrize("num_ranks", range(1, 8))
def test_ranks_cut_slices_as_the_batch_plan_does(num_ranks: int) -> None:
    sizes = (0, 1, 5, 200, 201)
    slices = [[slice_of(0, count, rank, num_ranks) for rank in range(num_ranks)] for count in sizes]
    assert slices == [list(pairwise(even_borders(count, num_ranks))) for count in sizes]
