"""What ranks will send one another for rows: counted from a log, or expected without one.

Counting runs the memory's own planning for all ranks in this process and moves no row: for the same batches
and capacity the numbers are those of a run, to the byte.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.blocks import Blocks
from tpnet_dist.memory.borrowed_rows import BorrowedRows
from tpnet_dist.memory.event_run import EventRun
from tpnet_dist.memory.kernels import Clocks
from tpnet_dist.memory.pipeline import MemoryRequest
from tpnet_dist.memory.run_exchange import IdRoom, reply_bytes
from tpnet_dist.memory.run_length import MOST_BATCHES, MOST_EVENTS, RunLength, in_runs
from tpnet_dist.memory.run_plan import RunPlan, distinct_nodes, plan_run
from tpnet_dist.models.registry import needs_of
from tpnet_dist.sizing.memory_sizes import clock_bytes_of, memory_nodes, memory_width, walk_of, wire_dtype

_RANDOM_RUNS = 2
"""The number of runs of a random graph that are planned; the last is counted, when some rows are there from
those before."""


@dataclass(frozen=True)
class RowTraffic:
    """The rows that are exchanged for one rank."""

    batches: int = 0
    rows_borrowed: int = 0
    bytes: int = 0
    """Bytes sent by any rank on this rank's behalf: ids, and the layers that answer them."""

    def __add__(self, other: "RowTraffic") -> "RowTraffic":
        return RowTraffic(
            self.batches + other.batches, self.rows_borrowed + other.rows_borrowed, self.bytes + other.bytes
        )

    @property
    def bytes_per_batch(self) -> float:
        return self.bytes / max(1, self.batches)


class TrafficCounter:
    """The planning of all ranks, without their rows."""

    def __init__(self, config: Config, log: LogShape, num_ranks: int, borrowed_rows: int) -> None:
        settings = config.memory
        self.num_nodes, self.blocks = memory_nodes(config, log), Blocks(memory_nodes(config, log), num_ranks)
        self.walk = walk_of(settings)
        self._layer_bytes = memory_width(settings, log) * wire_dtype(config).itemsize
        self._clock_bytes = clock_bytes_of(settings)
        self.borrowed = [
            BorrowedRows(
                borrowed_rows,
                self.num_nodes - len(range(*self.blocks.range_of(rank))),
                torch.empty(0, self.walk.layers, 0),
                Clocks.zeros(0, with_degree=False),
            )
            for rank in range(num_ranks)
        ]
        self.run_length, self.id_room = RunLength(settings.run_batches), IdRoom()

    def count(
        self, requests: Sequence[Iterable[MemoryRequest[object]]], *, read: bool = True
    ) -> list[RowTraffic]:
        """Return traffic by rank for the batches that each asks for; `read`: not only to record them."""
        traffic = [RowTraffic() for _ in requests]
        runs = [
            in_runs(
                each,
                lambda: self.run_length.batches(read=read),
                lambda request: len(request.events),
                MOST_EVENTS if read else math.inf,
            )
            for each in requests
        ]
        open_runs: list[list[RunPlan]] = [[] for _ in requests]
        for of_ranks in zip(*runs, strict=True):
            plans = [
                plan_run(
                    EventRun.of([request.events for request in run]),
                    [distinct_nodes(request.nodes, self.num_nodes) for request in run],
                    blocks=self.blocks,
                    rank=rank,
                    borrowed=self.borrowed[rank],
                    hops=self.walk.hops,
                    timescales=self.walk.timescales,
                    open_runs=open_runs[rank],
                )
                for rank, run in enumerate(of_ranks)
            ]
            self.run_length.learn(len(of_ranks[0]), max(plan.fit for plan in plans))
            most = max(int(np.diff(plan.asked.border_R).max()) for plan in plans)
            counted = [
                _traffic_of(plan, self._layer_bytes, self._clock_bytes, self.id_room, most) for plan in plans
            ]
            self.id_room.learn(most)
            open_runs = [[plan] for plan in plans]
            traffic = [total + now for total, now in zip(traffic, counted, strict=True)]
        return traffic


def _traffic_of(
    plan: RunPlan, layer_bytes: int, clock_bytes: int, id_room: IdRoom, most_asked: int
) -> RowTraffic:
    counts = np.diff(plan.asked.border_R)
    lent = sum(sum(reply_bytes(part, layer_bytes, clock_bytes)) for part in plan.asked.early_and_late())
    return RowTraffic(plan.num_batches, int(counts.sum()), id_room.bytes_to_ask(counts, most_asked) + lent)


def expected_traffic(config: Config, log: LogShape, num_ranks: int) -> RowTraffic:
    """Return the traffic of a rank where nodes meet at random, mean of a run of batches."""
    if not needs_of(config).rows:
        return RowTraffic(1)
    settings = config.memory
    return _of_random_graph(
        memory_nodes(config, log),
        num_ranks,
        config.training.batch_size,
        needs_of(config).neighbors,
        settings.hops,
        settings.timescales,
        min(MOST_BATCHES, settings.run_batches or MOST_BATCHES),
        memory_width(settings, log) * wire_dtype(config).itemsize,
        clock_bytes_of(settings),
    )


@cache
def _of_random_graph(
    num_nodes: int,
    num_ranks: int,
    batch_size: int,
    neighbors: int,
    hops: int,
    timescales: int,
    num_batches: int,
    layer_bytes: int,
    clock_bytes: int,
) -> RowTraffic:
    draws, blocks = np.random.default_rng(0), Blocks(num_nodes, num_ranks)
    slots = batch_size * 3 * (1 + neighbors) // num_ranks
    own = len(range(*blocks.range_of(0)))
    clocks = Clocks.zeros(0, with_degree=False)
    borrowed = BorrowedRows(num_nodes, num_nodes - own, torch.empty(0, 1 + hops * timescales, 0), clocks)
    border = np.arange(0, num_batches * batch_size + 1, batch_size)
    id_room, most = IdRoom(), 0
    for _ in range(_RANDOM_RUNS):
        id_room.learn(most)
        src, dst = draws.integers(0, num_nodes, (2, num_batches * batch_size))
        run = EventRun.from_columns(src, dst, np.zeros(len(src)), border)
        nodes = [np.unique(draws.integers(0, num_nodes, slots)) for _ in range(num_batches)]
        plan = plan_run(
            run, nodes, blocks=blocks, rank=0, borrowed=borrowed, hops=hops, timescales=timescales
        )
        most = int(np.diff(plan.asked.border_R).max())
    return _traffic_of(plan, layer_bytes, clock_bytes, id_room, most)


def mean_traffic(of_ranks: Sequence[RowTraffic]) -> RowTraffic:
    """Return the mean traffic of a rank."""
    total, share = sum(of_ranks, RowTraffic()), len(of_ranks)
    return RowTraffic(total.batches // share, total.rows_borrowed // share, total.bytes // share)
