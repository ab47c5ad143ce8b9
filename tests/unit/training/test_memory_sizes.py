"""How many rows of other ranks a rank keeps: as many as there are, as it may, and as there is room for."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.support.training_runs import small_config, small_log
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.world import DEFAULT_TIMEOUT, World
from tpnet_dist.errors import InputError
from tpnet_dist.events.reader import EventLog
from tpnet_dist.memory.kernels import Clocks
from tpnet_dist.models.registry import spec_of
from tpnet_dist.sizing.devices import device_named
from tpnet_dist.sizing.memory_sizes import MemorySizes, memory_nodes, step_bytes_of, weight_bytes_of
from tpnet_dist.sizing.rank_bytes import borrowed_rows_of, rank_bytes

HOST = torch.device("cpu")


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
    assert sizes_of(log, 1).borrowed_rows == 0
    assert sizes_of(log, 4).borrowed_rows == nodes - -(-nodes // 4)


@pytest.mark.parametrize(("walk", "row"), [("decay", 256 + 8), ("transition", 256 + 16)])
def test_a_borrowed_row_takes_its_layers_its_clock_and_a_slot(log: EventLog, walk: str, row: int) -> None:
    sizes = sizes_of(log, 2, borrowed_rows=5, walk=walk)
    assert (sizes.borrowed_rows, sizes.borrowed) == (5, 5 * (row + 32))


def test_none_are_kept_where_none_are_wanted(log: EventLog) -> None:
    assert sizes_of(log, 4, borrowed_rows=0).borrowed == 0
    assert sizes_of(log, 4, enabled=False) == MemorySizes(0, 0, 0, 0, 0)


def test_by_default_borrowed_rows_take_an_eighth(log: EventLog) -> None:
    """A borrowed row takes 296 bytes: four layers of 16 floats, a clock, a slot."""
    few = small_config(Path(log.folder), training={"batch_size": 4})
    assert MemorySizes.of(few, log, world_of(4), free=8 * 296 * 70, weights=0).borrowed_rows == 70


@pytest.mark.parametrize("asked", [None, 10**6])
def test_borrowed_rows_shrink_to_half_of_what_is_left(log: EventLog, asked: int | None) -> None:
    needed = sizes_of(log, 4).rows + sizes_of(log, 4).clocks + 50_000 + step_bytes_of(config_of(log), log, 4)
    for left, rows in ((2 * 296 * 3 + 1, 3), (591, 0), (-5000, 0)):
        shrunk = sizes_of(log, 4, free=needed + left, borrowed_rows=asked)
        assert (shrunk.borrowed_rows, shrunk.borrowed) == (rows, 296 * rows)


def test_clocks_take_nothing_from_a_gpu(log: EventLog) -> None:
    config, on_gpu = config_of(log), replace(world_of(4), device=torch.device("cuda"))
    free = sizes_of(log, 4).rows + step_bytes_of(config, log, 4) + 2 * 296 * 3
    assert MemorySizes.of(config, log, on_gpu, free=free, weights=0).borrowed_rows == 3
    assert MemorySizes.of(config, log, world_of(4), free=free, weights=0).borrowed_rows < 3


@pytest.mark.parametrize("device", ["rtx3090", "cpu"])
def test_the_planner_foretells_what_a_run_keeps(log: EventLog, device: str) -> None:
    config, shape, planned = config_of(log), log.shape, device_named(device)
    world = replace(world_of(4), device=HOST if planned.is_host else torch.device("cuda"))
    weights = weight_bytes_of(spec_of(config).make(config, log.shape))
    neighbors = rank_bytes(config, shape, 4, planned).neighbors
    step = step_bytes_of(config, log, 4)
    for free, keeps in ((weights + step, False), (weights + step + 40_000, True), (10**9, True)):
        memory = planned.base_bytes + free
        room = replace(
            planned, memory_bytes=memory, host_memory_bytes=4 * (memory + neighbors), ranks_per_host=4
        )
        kept = MemorySizes.of(config, log, world, free=free, weights=weights).borrowed_rows
        assert borrowed_rows_of(config, shape, 4, room) == kept
        assert (kept > 0) == keeps, "rows, weights and a step come first"


def test_fewer_rows_than_none_are_refused(log: EventLog) -> None:
    with pytest.raises(InputError, match=r"memory\.borrowed_rows is -1, but must be at least 0"):
        replace(config_of(log).memory, borrowed_rows=-1)


def test_a_batch_brings_at_most_its_slots_or_all_there_are(log: EventLog) -> None:
    """Batches of 50 events; each slot is one of 3 nodes or of their 4 neighbours, a row takes 296 bytes."""
    nodes = memory_nodes(config_of(log), log)
    assert sizes_of(log, 1).exchange == 0
    assert sizes_of(log, 2).exchange == (nodes - -(-nodes // 2)) * 296
    few = small_config(Path(log.folder), training={"batch_size": 4})
    assert MemorySizes.of(few, log, world_of(2), free=10**9, weights=0).exchange == 2 * 3 * 5 * 296


@pytest.mark.parametrize(("walk", "per_node"), [("decay", 8), ("count", 8), ("transition", 16)])
def test_clocks_take_what_a_memory_holds_of_them(log: EventLog, walk: str, per_node: int) -> None:
    own = -(-memory_nodes(config_of(log, walk=walk), log) // 2)
    clocks = Clocks.zeros(own, with_degree=walk == "transition")
    assert sizes_of(log, 2, walk=walk).clocks == per_node * own
    assert sum(column.nbytes for column in clocks.columns()) == per_node * own
