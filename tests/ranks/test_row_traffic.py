"""What the planner counts without moving a row is what real ranks send, to the byte."""

from itertools import islice
from pathlib import Path

import pytest

from tests.rank_pool import RankPools
from tests.training_runs import small_config, small_log
from tpnet_dist.config import Config
from tpnet_dist.events.reader import EventLog
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.pipeline import MemoryRequest, fetch_ahead
from tpnet_dist.planning.data_traffic import DataTraffic
from tpnet_dist.planning.exchange_count import TrafficCounter, WireSizes
from tpnet_dist.ranks.world import World
from tpnet_dist.training.run_model import build_memory

RECORDED = 10


def bytes_sent(world: World, config: Config, cache_rows: int) -> tuple[int, int]:
    """While the first batches are recorded, and while the others are learned from."""
    log = EventLog(config.data.folder)
    data = DataTraffic(log, config)
    memory = build_memory(config, log, world.new_exchange(), world.device, 0, cache_rows)
    assert memory is not None
    recorded = [without_products(request) for request in data.recorded(RECORDED)]
    first = send(memory, recorded)
    return first, send(memory, list(data.learned(world.rank, world.num_ranks, RECORDED))) - first


def without_products(request: MemoryRequest[object]) -> MemoryRequest[object]:
    return MemoryRequest(request.events, request.needed, request.note, products=False)


def send(memory: Memory, requests: list[MemoryRequest[object]]) -> int:
    for _ in fetch_ahead(memory, requests, prefetch=1):
        pass
    return memory.exchange.account.bytes_sent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("traffic") / "log")


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("cache_rows", [0, 7, 1000])
def test_counted_bytes_are_sent_bytes(
    num_ranks: int, cache_rows: int, folder: Path, rank_pools: RankPools
) -> None:
    config = small_config(folder)
    measured = rank_pools[num_ranks].run(bytes_sent, config, cache_rows)
    data = DataTraffic(EventLog(folder), config)
    wire, counted = WireSizes.of(config, data.shape), [0, 0]
    for rank in range(num_ranks):
        counter = TrafficCounter(config, data.shape, rank, num_ranks, cache_rows)
        while_recording = counter.count(data.recorded(RECORDED))
        # rows that are fetched only to be recorded are not kept, so nobody wants their products
        counted[0] += while_recording.bytes_exchanged(wire, products=False)
        while_learning = counter.count(data.learned(rank, num_ranks, RECORDED))
        counted[1] += while_learning.bytes_exchanged(wire, products=True)
    assert [sum(column) for column in zip(*measured, strict=True)] == counted
    assert (counted[1] > 0) == (num_ranks > 1)


def test_bfloat16_rows_weigh_half(folder: Path) -> None:
    log = EventLog(folder)
    sizes = [
        WireSizes.of(config, DataTraffic(log, config).shape)
        for config in (
            small_config(folder),
            small_config(folder, memory={"exchange_dtype": "bfloat16"}),
        )
    ]
    assert sizes[0].row == 2 * sizes[1].row == 4 * 16 * 4
    assert sizes[0].sum == 2 * sizes[1].sum == 3 * 16 * 4


def test_the_last_batches_are_counted_with_warm_caches(folder: Path) -> None:
    log, config = EventLog(folder), small_config(folder)
    data = DataTraffic(log, config)
    assert len(list(islice(data.recorded(100), 30))) == 24
    cold, warm = (data.of_last(5, 2, cache_rows=rows) for rows in (0, 1000))
    assert [one.batches for one in cold] == [5, 5]
    assert all(one.rows_asked < other.rows_asked for one, other in zip(warm, cold, strict=True))
