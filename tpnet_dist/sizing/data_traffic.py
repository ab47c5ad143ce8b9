"""What the ranks of a run on a real log will send one another, counted from batches near its end."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tpnet_dist.batches.event_batches import batches_to_record
from tpnet_dist.batches.negatives import Universe
from tpnet_dist.batches.run_data import chunks_of, plan_of, planner_of, split_of
from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.batch_slices import BatchSlices
from tpnet_dist.distributed.exchange import LocalExchange
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.view import EventView
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.memory.pipeline import MemoryRequest
from tpnet_dist.models.registry import needs_of
from tpnet_dist.neighbors.build import build_neighbor_index
from tpnet_dist.neighbors.sharded import ShardedNeighbors
from tpnet_dist.sizing.devices import Device
from tpnet_dist.sizing.exchange_count import RowTraffic, TrafficCounter, mean_traffic
from tpnet_dist.sizing.memory_sizes import padding_node_of
from tpnet_dist.sizing.rank_bytes import rank_bytes

KEY = SampleKey(0, 0)
SAMPLED_BATCHES = 64
"""Counted at the end of a log, and as many before them, whose rows are there then."""


def count_data(
    folder: Path, config: Config, num_ranks: int, device: Device
) -> tuple[LogShape, RowTraffic | None]:
    """Return a log's shape, and what the mean rank exchanges; None where there is nobody or nothing to
    ask."""
    log = EventLog(folder)
    train = split_of(log, config.data).train
    batches = len(plan_of(train, config, config.training.batch_size))
    shape = replace(log.shape, train_share=len(train) / len(log), train_batches=batches)
    if num_ranks == 1 or not needs_of(config).rows:
        return shape, None
    borrowed_rows = rank_bytes(config, shape, num_ranks, device).borrowed_rows
    of_ranks = DataTraffic(log, config, device.type).of_last(
        SAMPLED_BATCHES, num_ranks, borrowed_rows=borrowed_rows
    )
    return shape, mean_traffic(of_ranks)


class DataTraffic:
    """The log's batches as each rank would plan them: fixed sizes, the whole log as history."""

    def __init__(self, log: EventLog, config: Config, device_type: str = "cpu") -> None:
        config = replace(config, data=replace(config.data, batching="events"))
        self.log, self.config, self.shape, self.device_type = log, config, log.shape, device_type
        self.everything = EventView(log, 0, len(log))
        self.plan = plan_of(self.everything, config, config.training.batch_size)
        index = build_neighbor_index(lambda: chunks_of(self.everything), 0, log.num_nodes)
        self._neighbors = ShardedNeighbors(index, log.num_nodes, LocalExchange())
        self._negatives = [Universe(self.everything).random(KEY)]

    def of_last(self, num_batches: int, num_ranks: int, *, borrowed_rows: int) -> list[RowTraffic]:
        """Return traffic by rank for the last batches, learned from after as many before them."""
        num_batches = min(num_batches, max(1, len(self.plan) // 2))
        counted = len(self.plan) - num_batches
        first = max(0, counted - num_batches)
        counter = TrafficCounter(self.config, self.shape, num_ranks, borrowed_rows)
        counter.count([self.learned(rank, num_ranks, first, counted) for rank in range(num_ranks)])
        return counter.count([self.learned(rank, num_ranks, counted) for rank in range(num_ranks)])

    def recorded(self, stop: int) -> Iterator[MemoryRequest[object]]:
        """Yield the first batches, as they are recorded where nobody scores them."""
        for number, (_, events) in enumerate(batches_to_record(self.log, self.everything, self.plan)):
            if number == stop:
                return
            yield MemoryRequest(None, events, None)

    def learned(
        self, rank: int, num_ranks: int, first: int, stop: int | None = None
    ) -> Iterator[MemoryRequest[object]]:
        """Yield batches as a rank learns from them or scores them: with negatives and neighbours."""
        planner = planner_of(
            self.config,
            self.log,
            self._neighbors,
            self._negatives,
            slices=BatchSlices.of(self.config.training.microbatches, rank, num_ranks, self.device_type),
            key=KEY,
            padding_node=padding_node_of(self.config, self.log),
        )
        requests = planner.requests(self.everything, self.plan, from_batch=first)
        for number, request in enumerate(requests, start=first):
            if number == stop:
                return
            yield MemoryRequest(request.nodes, request.events, None)
