"""How many rows of other ranks a rank keeps: as many as there are, as it may, and as there is room for."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.training_runs import small_config, small_log
from tpnet_dist.config import Config
from tpnet_dist.errors import InputError
from tpnet_dist.events.reader import EventLog
from tpnet_dist.memory.clocks import Clocks
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.walks import Walk
from tpnet_dist.planning.devices import device_named
from tpnet_dist.planning.log_shape import LogShape
from tpnet_dist.planning.rank_bytes import cache_rows_of, rank_bytes
from tpnet_dist.ranks.exchange import LocalExchange
from tpnet_dist.ranks.world import DEFAULT_TIMEOUT, World
from tpnet_dist.training.memory_sizes import MemorySizes, memory_nodes, step_bytes_of, weight_bytes_of
from tpnet_dist.training.run_model import build_model

HOST = torch.device("cpu")


class OneOfTwo(LocalExchange):
    """The first of two ranks, as far as a memory that is only made can tell."""

    def __init__(self) -> None:
        super().__init__()
        self.num_ranks = 2


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> EventLog:
    return EventLog(small_log(tmp_path_factory.mktemp("sizes") / "log"))


def world_of(num_ranks: int) -> World:
    return World(0, num_ranks, 0, num_ranks, HOST, DEFAULT_TIMEOUT)


def config_of(log: EventLog, **memory: object) -> Config:
    return small_config(Path(log.folder), memory=memory)


def sizes_of(log: EventLog, num_ranks: int, *, free: int = 10**9, **memory: object) -> MemorySizes:
    return MemorySizes.of(config_of(log, **memory), log, world_of(num_ranks), free=free, weights=50_000)


def test_by_default_a_small_log_is_kept_whole(log: EventLog) -> None:
    nodes = memory_nodes(config_of(log), log)
    assert sizes_of(log, 1).cache_rows == 0
    assert sizes_of(log, 4).cache_rows == nodes - -(-nodes // 4)


@pytest.mark.parametrize(("exchange_dtype", "row"), [("float32", 256), ("bfloat16", 128)])
def test_a_kept_row_takes_its_layers_as_they_travel_and_its_products(
    log: EventLog, exchange_dtype: str, row: int
) -> None:
    sizes = sizes_of(log, 2, cache_rows=5, exchange_dtype=exchange_dtype)
    assert (sizes.cache_rows, sizes.cache) == (5, 5 * (row + 64))
    made = Memory(
        100,
        Walk("decay", 3, 1e-6),
        16,
        exchange=OneOfTwo(),
        exchange_dtype=getattr(torch, exchange_dtype),
        cache_rows=5,
    )
    assert made.cache is not None
    assert made.cache.slots.capacity * made.cache.bytes_per_row == sizes.cache


def test_none_are_kept_where_none_are_wanted(log: EventLog) -> None:
    assert sizes_of(log, 4, cache_rows=0).cache == 0
    assert sizes_of(log, 4, enabled=False) == MemorySizes(0, 0, 0, 0, 0)


def test_by_default_the_cache_takes_an_eighth(log: EventLog) -> None:
    """A kept row takes 320 bytes: four layers of 16 floats, and 4 × 4 products."""
    few = small_config(Path(log.folder), training={"batch_size": 4})
    assert MemorySizes.of(few, log, world_of(4), free=8 * 320 * 70, weights=0).cache_rows == 70


@pytest.mark.parametrize("asked", [None, 10**6])
def test_the_cache_shrinks_to_half_of_what_is_left(log: EventLog, asked: int | None) -> None:
    needed = sizes_of(log, 4).rows + sizes_of(log, 4).clocks + 50_000 + step_bytes_of(config_of(log), log, 4)
    for left, rows in ((2 * 320 * 3 + 1, 3), (639, 0), (-5000, 0)):
        shrunk = sizes_of(log, 4, free=needed + left, cache_rows=asked)
        assert (shrunk.cache_rows, shrunk.cache) == (rows, 320 * rows)


def test_clocks_take_nothing_from_a_gpu(log: EventLog) -> None:
    config, on_gpu = config_of(log), replace(world_of(4), device=torch.device("cuda"))
    free = sizes_of(log, 4).rows + step_bytes_of(config, log, 4) + 2 * 320 * 3
    assert MemorySizes.of(config, log, on_gpu, free=free, weights=0).cache_rows == 3
    assert MemorySizes.of(config, log, world_of(4), free=free, weights=0).cache_rows < 3


@pytest.mark.parametrize("device", ["rtx3090", "cpu"])
def test_the_planner_foretells_what_a_run_keeps(log: EventLog, device: str) -> None:
    config, shape, planned = config_of(log), LogShape.of(log), device_named(device)
    world = replace(world_of(4), device=HOST if planned.is_host else torch.device("cuda"))
    weights = weight_bytes_of(build_model(config, log))
    neighbors = rank_bytes(config, shape, 4, planned).neighbors
    step = step_bytes_of(config, log, 4)
    for free, keeps in ((weights + step, False), (weights + step + 40_000, True), (10**9, True)):
        memory = planned.base_bytes + free
        room = replace(
            planned, memory_bytes=memory, host_memory_bytes=4 * (memory + neighbors), ranks_per_host=4
        )
        kept = MemorySizes.of(config, log, world, free=free, weights=weights).cache_rows
        assert cache_rows_of(config, shape, 4, room) == kept
        assert (kept > 0) == keeps, "rows, weights and a step come first"


def test_fewer_rows_than_none_are_refused(log: EventLog) -> None:
    with pytest.raises(InputError, match=r"memory\.cache_rows is -1, but must be at least 0"):
        replace(config_of(log).memory, cache_rows=-1)


def test_a_batch_brings_at_most_its_slots_or_all_there_are(log: EventLog) -> None:
    """Batches of 50 events; each slot is one of 3 nodes or of their 4 neighbours, a row takes 320 bytes."""
    nodes = memory_nodes(config_of(log), log)
    assert sizes_of(log, 1).exchange == 0
    assert sizes_of(log, 2).exchange == (nodes - -(-nodes // 2)) * 320
    few = small_config(Path(log.folder), training={"batch_size": 4})
    assert MemorySizes.of(few, log, world_of(2), free=10**9, weights=0).exchange == 2 * 3 * 5 * 320


@pytest.mark.parametrize(("walk", "per_node"), [("decay", 8), ("count", 8), ("transition", 16)])
def test_clocks_take_what_a_memory_holds_of_them(log: EventLog, walk: str, per_node: int) -> None:
    config = config_of(log, walk=walk)
    nodes = memory_nodes(config, log)
    clocks = Clocks(nodes, Walk(config.memory.walk, config.memory.hops, config.memory.decay))
    assert sizes_of(log, 2, walk=walk).clocks == per_node * nodes
    assert clocks.clock_N.nbytes + clocks.degree_N.nbytes == per_node * nodes
