"""What ranks will send one another for rows: counted from a log, or expected without one.

Counting runs the memory's own planning for every rank, one after another in this process, and moves no row:
for the same batches and caches the numbers are those of a run, to the byte.

Shape letters: B events of a batch.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import torch

from tpnet_dist.config import Config
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.memory_plan import ID_BYTES, MemoryPlan
from tpnet_dist.memory.pipeline import BATCHES_PER_PLAN, MemoryRequest
from tpnet_dist.memory.row_cache import bytes_per_row
from tpnet_dist.memory.walks import Walk
from tpnet_dist.planning.log_shape import LogShape
from tpnet_dist.ranks.exchange import LocalExchange
from tpnet_dist.ranks.portions import Portions
from tpnet_dist.training.memory_sizes import memory_nodes, memory_width


class PlanOnly(LocalExchange):
    """The exchange of one rank of many, asked where rows would go, and never for one."""

    def __init__(self, rank: int, num_ranks: int) -> None:
        super().__init__()
        self.rank, self.num_ranks = rank, num_ranks


@dataclass(frozen=True)
class RowTraffic:
    """Of one rank."""

    batches: int = 0
    rows_asked: int = 0
    """Of other ranks; each comes with the id that asks for it."""
    sums_sent: int = 0
    """Of messages, to rows of other ranks."""

    def __add__(self, other: "RowTraffic") -> "RowTraffic":
        return RowTraffic(
            self.batches + other.batches,
            self.rows_asked + other.rows_asked,
            self.sums_sent + other.sums_sent,
        )

    def bytes_exchanged(self, sizes: "WireSizes", *, products: bool) -> int:
        """Sent by anybody on this rank's behalf: ids, the rows that answer them, and sums."""
        row = sizes.row_with_products if products else sizes.row
        return self.rows_asked * (ID_BYTES + row) + self.sums_sent * sizes.sum


@dataclass(frozen=True)
class WireSizes:
    """Bytes of what travels."""

    row: int
    row_with_products: int
    sum: int

    @classmethod
    def of(cls, config: Config, log: LogShape) -> "WireSizes":
        layers, width = config.memory.hops + 1, memory_width(config.memory, log)
        wire = getattr(torch, config.memory.exchange_dtype)
        return cls(
            layers * width * wire.itemsize,
            bytes_per_row(layers, width, torch.float32, wire),
            config.memory.hops * width * wire.itemsize,
        )


class TrafficCounter:
    """One rank's planning, without its rows."""

    def __init__(
        self,
        config: Config,
        log: LogShape,
        rank: int,
        num_ranks: int,
        cache_rows: int,
        device_type: str = "cpu",
    ) -> None:
        settings = config.memory
        self.rank = rank
        self._memory = Memory(
            memory_nodes(config, log),
            Walk(settings.walk, settings.hops, settings.decay),
            width=1,
            exchange=PlanOnly(rank, num_ranks),
            cache_rows=cache_rows,
            portions=Portions.of(config.training.portions, rank, num_ranks, device_type).count,
        )

    @property
    def rows_held(self) -> int:
        """Of other ranks, after all that was counted."""
        cache = self._memory.cache
        return 0 if cache is None else cache.slots.num_held

    def count(self, requests: Iterable[MemoryRequest[object]]) -> RowTraffic:
        """Of batches that are recorded one after another."""
        iterator, traffic = iter(requests), RowTraffic()
        while run := list(islice(iterator, BATCHES_PER_PLAN)):
            assert all(request.is_plain for request in run), "groups larger than a batch are not counted"
            plans = self._memory.plan_run(
                [request.events for request in run], [request.needed for request in run]
            )
            traffic += self._of_plans(plans)
        return traffic

    def _of_plans(self, plans: Sequence[MemoryPlan]) -> RowTraffic:
        asked = sum(sum(plan.route.send_counts) - plan.route.send_counts[self.rank] for plan in plans)
        sent = sum(sum(plan.record.delivery.route.send_counts) for plan in plans if plan.record is not None)
        return RowTraffic(len(plans), asked, sent)


def expected_traffic(
    config: Config, log: LogShape, num_ranks: int, *, with_neighbors: bool, device_type: str = "cpu"
) -> RowTraffic:
    """Of one batch on one rank, where nodes meet at random and no row is held from before."""
    if not config.memory.enabled:
        return RowTraffic(1)
    portions = Portions.of(config.training.portions, 0, num_ranks, device_type).count
    events = config.training.batch_size / num_ranks
    ends = portions / num_ranks * _distinct(2 * config.training.batch_size / portions, log.num_nodes)
    slots = 3 * events * (1 + config.model.neighbors) if with_neighbors else 2 * events
    remote = 1 - 1 / num_ranks
    return RowTraffic(1, round(_distinct(slots, log.num_nodes) * remote), round(ends * remote))


def _distinct(draws: float, num_nodes: int) -> float:
    """Expected number of different ones among so many draws."""
    if num_nodes == 1:
        return min(1.0, draws)
    # of many nodes 1 - 1 / n is rounded to 1
    return -num_nodes * math.expm1(draws * math.log1p(-1 / num_nodes))


def mean_traffic(of_ranks: Sequence[RowTraffic]) -> RowTraffic:
    """Of a rank."""
    total = sum(of_ranks, RowTraffic())
    share = len(of_ranks)
    return RowTraffic(total.batches // share, total.rows_asked // share, total.sums_sent // share)
