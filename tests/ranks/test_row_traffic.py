"""What the planner counts without moving a row is what real ranks send, to the byte."""

from itertools import islice
from pathlib import Path

import pytest

from benchmarks.rank_pool import RankPools
from tests.support.training_runs import small_config, small_log
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.world import World
from tpnet_dist.evaluation.model_parts import build_memory
from tpnet_dist.events.reader import EventLog
from tpnet_dist.memory.event_run import EventRun
from tpnet_dist.memory.pipeline import fetch_ahead
from tpnet_dist.sizing.data_traffic import DataTraffic
from tpnet_dist.sizing.exchange_count import TrafficCounter

RECORDED = 10


def bytes_sent(world: World, config: Config, borrowed_rows: int) -> tuple[int, int]:
    """While the first batches are only recorded, and while the others are learned from."""
    log = EventLog(config.data.folder)
    data = DataTraffic(log, config)
    memory = build_memory(config, log, world.new_exchange(), world.device, 0, borrowed_rows)
    assert memory is not None
    run = EventRun.of([request.events for request in data.recorded(RECORDED)])
    memory.catch_up([run], run.num_events)
    first = memory.exchange.stats.bytes_sent
    for _ in fetch_ahead(memory, data.learned(world.rank, world.num_ranks, RECORDED), prefetch=1):
        pass
    return first, memory.exchange.stats.bytes_sent - first


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("traffic") / "log")


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("run_batches", [None, 1, 5])
@pytest.mark.parametrize("borrowed_rows", [0, 7, 1000])
def test_counted_bytes_are_sent_bytes(
    num_ranks: int, borrowed_rows: int, run_batches: int | None, folder: Path, rank_pools: RankPools
) -> None:
    config = small_config(folder, memory={"catch_up": "nodes", "run_batches": run_batches})
    measured = rank_pools[num_ranks].run(bytes_sent, config, borrowed_rows)
    data, ranks = DataTraffic(EventLog(folder), config), range(num_ranks)
    counter = TrafficCounter(config, data.shape, num_ranks, borrowed_rows)
    while_recording = counter.count([data.recorded(RECORDED) for _ in ranks], read=False)
    while_learning = counter.count([data.learned(rank, num_ranks, RECORDED) for rank in ranks])
    counted = [sum(rank.bytes for rank in traffic) for traffic in (while_recording, while_learning)]
    assert [sum(column) for column in zip(*measured, strict=True)] == counted
    assert (counted[1] > 0) == (num_ranks > 1)


def test_bfloat16_rows_weigh_about_half(folder: Path) -> None:
    log = EventLog(folder)
    configs = (small_config(folder), small_config(folder, memory={"exchange_dtype": "bfloat16"}))
    of_types = [
        sum(one.bytes for one in DataTraffic(log, config).of_last(5, 2, borrowed_rows=1000))
        for config in configs
    ]
    assert 0.5 < of_types[1] / of_types[0] < 0.65


def test_the_last_batches_are_counted_after_those_before_them(folder: Path) -> None:
    log, config = EventLog(folder), small_config(folder)
    data = DataTraffic(log, config)
    assert len(list(islice(data.recorded(100), 30))) == 24
    cold, warm = (data.of_last(5, 2, borrowed_rows=rows) for rows in (0, 1000))
    assert [one.batches for one in cold] == [5, 5]
    assert all(one.rows_borrowed < other.rows_borrowed for one, other in zip(warm, cold, strict=True))
