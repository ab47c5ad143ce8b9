"""How many rows of other ranks a rank keeps: as many as there are, as it may, and as there is room for."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.sentences import refused
from tests.support.training_runs import small_config, small_log
from tpnet_dist.config.schema import Config
from tpnet_dist.events.reader import EventLog
from tpnet_dist.memory.kernels import Clocks
from tpnet_dist.sizing.memory_sizes import memory_nodes
from tpnet_dist.sizing.rank_bytes import NeededBytes, exchanged_bytes, needed_bytes, rows_to_borrow
from tpnet_dist.sizing.rank_memory import RankMemory


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> EventLog:
    return EventLog(small_log(tmp_path_factory.mktemp("sizes") / "log"))


def config_of(log: EventLog, **memory: object) -> Config:
    return small_config(Path(log.folder), memory=memory)


def sizes_of(log: EventLog, num_ranks: int, *, free: int = 10**9, **memory: object) -> NeededBytes:
    """`free`: for one rank of a host."""
    on_host = RankMemory(num_ranks * free, num_ranks, is_host=True)
    return needed_bytes(config_of(log, **memory), log.shape, num_ranks, on_host, neighbors=0)


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
    without = sizes_of(log, 4, enabled=False)
    assert (without.rows, without.clocks, without.borrowed_rows, without.borrowed) == (0, 0, 0, 0)
    assert exchanged_bytes(config_of(log, enabled=False), log.shape, 4, 0, 50) == 0


def test_by_default_borrowed_rows_take_an_eighth() -> None:
    free = 8 * 296 * 70
    assert rows_to_borrow(None, 296, remote=1000, free=free, left=free) == 70
    assert rows_to_borrow(90, 296, remote=1000, free=free, left=free) == 90


@pytest.mark.parametrize("asked", [None, 10**6])
def test_borrowed_rows_shrink_to_half_of_what_is_left(log: EventLog, asked: int | None) -> None:
    """A borrowed row takes 296 bytes: four layers of 16 floats, a clock, a slot."""
    sizes = sizes_of(log, 4)
    needed = sizes.rows + sizes.clocks + sizes.weights + sizes.step
    for left, rows in ((2 * 296 * 3 + 1, 3), (591, 0), (-5000, 0)):
        shrunk = sizes_of(log, 4, free=needed + left, borrowed_rows=asked)
        assert (shrunk.borrowed_rows, shrunk.borrowed) == (rows, 296 * rows)


def test_clocks_take_nothing_from_a_gpu(log: EventLog) -> None:
    config, sizes = config_of(log), sizes_of(log, 4)
    free = sizes.rows + sizes.weights + sizes.step + 2 * 296 * 3
    on_gpu = RankMemory(free, 1, is_host=False)
    assert needed_bytes(config, log.shape, 4, on_gpu, neighbors=10**9).borrowed_rows == 3
    assert sizes_of(log, 4, free=free).borrowed_rows < 3


def test_neighbours_that_are_to_come_take_from_a_host_alone(log: EventLog) -> None:
    config, free = config_of(log, borrowed_rows=50), sizes_of(log, 4).weights + 10**6
    kept = [
        needed_bytes(config, log.shape, 4, RankMemory(free, 1, is_host=is_host), neighbors=free).borrowed_rows
        for is_host in (True, False)
    ]
    assert kept == [0, 50]


def test_fewer_rows_than_none_are_refused(log: EventLog) -> None:
    with refused():
        replace(config_of(log).memory, borrowed_rows=-1)


def test_a_batch_brings_at_most_its_slots_or_all_there_are(log: EventLog) -> None:
    """Batches of 50 events; each slot is one of 3 nodes or of their 4 neighbours, a row takes 296 bytes."""
    nodes = memory_nodes(config_of(log), log)
    config, shape = config_of(log), log.shape
    assert exchanged_bytes(config, shape, 1, 0, events=50) == 0
    assert exchanged_bytes(config, shape, 2, 0, events=25) == (nodes - -(-nodes // 2)) * 296
    assert exchanged_bytes(config, shape, 2, 0, events=2) == 2 * 3 * 5 * 296


@pytest.mark.parametrize(("walk", "per_node"), [("decay", 8), ("count", 8), ("transition", 16)])
def test_clocks_take_what_a_memory_holds_of_them(log: EventLog, walk: str, per_node: int) -> None:
    own = -(-memory_nodes(config_of(log, walk=walk), log) // 2)
    clocks = Clocks.zeros(own, with_degree=walk == "transition")
    assert sizes_of(log, 2, walk=walk).clocks == per_node * own
    assert sum(column.nbytes for column in clocks.columns()) == per_node * own


def test_a_row_takes_layers_for_every_timescale(log: EventLog) -> None:
    """Three hops of 16 floats: layer 0, and three layers for each timescale."""
    for decay, layers in ((1e-6, 4), ((1e-7, 1e-5), 7), ((1e-7, 1e-6, 1e-5), 10)):
        sizes = sizes_of(log, 2, borrowed_rows=5, decay=decay)
        row = layers * 16 * 4
        assert sizes.rows == row * -(-memory_nodes(config_of(log), log) // 2)
        assert sizes.borrowed == 5 * (row + 8 + 32)
        assert sizes.weights > 0
