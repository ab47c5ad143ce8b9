"""How many bytes the ranks exchange per event, against the least that could be.

    python -m benchmarks.exchange --ranks 2 4 --data data/uci data/wikipedia
    python -m benchmarks.exchange                      # a random log, no data needed

The least: every remote row a rank needs once per batch (L·D floats), and one summed message per remote row
and sending rank (k·D floats). `ends`: a rank needs the rows of its slice's sources and destinations.
`neighbors`: also one negative destination per event and the 20 most recent neighbours of all three. Real gloo
ranks on this machine, one thread each.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks.results_line import print_results_line
from data_prep.synth_random import random_events
from tests.rank_pool import RankPool
from tpnet_dist.events import EventColumns, EventLog
from tpnet_dist.flags import Count
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.neighbor_build import EventChunk, build_neighbor_index
from tpnet_dist.memory.plan import BatchEvents
from tpnet_dist.memory.sharded_neighbors import ShardedNeighbors
from tpnet_dist.memory.walks import Walk
from tpnet_dist.ranks.blocks import Blocks, even_borders
from tpnet_dist.ranks.world import World

HOPS, NEIGHBORS = 3, 20
Mode = Literal["ends", "neighbors"]


@dataclass(kw_only=True)
class Settings:
    """What to run it on."""

    ranks: tuple[int, ...] = (2, 4)
    data: tuple[Path, ...] = ()
    """Data folders; besides them a random log is always measured."""
    events: Count = 20_000
    """Events of each log that are exchanged, from the middle on."""
    random_nodes: Count = 1_000_000
    batch_size: int = 200


@dataclass(frozen=True)
class Log:
    """A stretch of events in memory, small enough to be sent to the ranks."""

    name: str
    num_nodes: int
    width: int
    first: int
    """Where the measured stretch begins; what lies before it is history for the neighbours."""
    src: Tensor
    dst: Tensor
    time: Tensor


@dataclass(frozen=True)
class RankFigures:
    bytes_sent: int
    least_bytes: int
    rows_wanted: int
    rows_fetched: int
    collectives: int
    batches: int
    seconds: dict[str, float]


def measure_rank(world: World, log: Log, mode: Mode, batch_size: int) -> RankFigures:
    exchange, blocks = world.new_exchange(), Blocks(log.num_nodes, world.num_ranks)
    memory = Memory(log.num_nodes, Walk("decay", HOPS, 1e-7), log.width, exchange=exchange)
    neighbors = build_neighbors(world, log, blocks) if mode == "neighbors" else None
    least = 0
    for first in range(log.first, len(log.src), batch_size):
        rows = slice(first, first + batch_size)
        events = BatchEvents(log.src[rows], log.dst[rows], log.time[rows])
        begin, end = even_borders(len(events), world.num_ranks)[world.rank : world.rank + 2]
        mine = BatchEvents(events.src_B[begin:end], events.dst_B[begin:end], events.time_B[begin:end])
        needed = None if neighbors is None else needed_nodes(neighbors, mine, log, first)
        plan = memory.plan(events, needed)
        least += remote(plan.nodes_U, blocks, world.rank) * (HOPS + 1) * log.width * 4
        receivers = torch.unique(torch.cat([mine.src_B, mine.dst_B]))
        least += remote(receivers, blocks, world.rank) * HOPS * log.width * 4
        memory.record(plan, memory.fetch(plan))
    account = exchange.account
    return RankFigures(
        account.bytes_sent,
        least,
        account.rows_wanted,
        account.rows_fetched,
        account.collectives,
        account.batches,
        account.seconds,
    )


def remote(nodes: Tensor, blocks: Blocks, rank: int) -> int:
    return int((blocks.owner_of(nodes) != rank).sum())


def build_neighbors(world: World, log: Log, blocks: Blocks) -> ShardedNeighbors:
    src, dst = (column.numpy().astype(np.int32) for column in (log.src, log.dst))

    def chunks() -> Iterator[EventChunk]:
        yield EventChunk(src, dst, log.time.numpy(), np.arange(len(src)))

    index = build_neighbor_index(chunks, *blocks.range_of(world.rank))
    # on an exchange of its own: the look-ups' bytes are not rows
    return ShardedNeighbors(index, log.num_nodes, world.new_exchange())


def needed_nodes(neighbors: ShardedNeighbors, mine: BatchEvents, log: Log, first: int) -> Tensor:
    generator = torch.Generator().manual_seed(first)
    negative = log.dst[torch.randint(0, len(log.dst), (len(mine),), generator=generator)]
    ends = torch.cat([mine.src_B, mine.dst_B, negative])
    found = neighbors.recent(ends, torch.full_like(ends, first), count=NEIGHBORS)
    return torch.cat([ends, found.ids_BM[found.mask_BM]])


def load_logs(settings: Settings) -> Iterator[Log]:
    for folder in settings.data:
        log = EventLog(folder)
        events = log.read(0, min(len(log), len(log) // 2 + settings.events))
        seconds = torch.from_numpy(log.seconds(events.time))
        yield _log(folder.name, log.num_nodes, len(log), events, seconds, len(log) // 2)
    count = 2 * settings.events
    events = next(random_events(events=count, nodes=settings.random_nodes, seed=0))
    edges = settings.random_nodes * 50
    seconds = torch.from_numpy(events.time - events.time[0]).double()
    yield _log("random", settings.random_nodes, edges, events, seconds, count // 2)


def _log(name: str, nodes: int, edges: int, events: EventColumns, seconds: Tensor, first: int) -> Log:
    width = min(10 * math.floor(math.log(2 * edges)), nodes)
    src, dst = (torch.from_numpy(column.astype(np.int64)) for column in (events.src, events.dst))
    return Log(name, nodes, width, first, src, dst, seconds)


def summarise(log: Log, num_ranks: int, mode: Mode, ranks: list[RankFigures]) -> dict[str, Any]:
    events = len(log.src) - log.first
    sent, least = sum(rank.bytes_sent for rank in ranks), sum(rank.least_bytes for rank in ranks)
    stages = {name: sum(rank.seconds[name] for rank in ranks) / len(ranks) for name in ranks[0].seconds}
    return {
        "log": log.name,
        "ranks": num_ranks,
        "mode": mode,
        "width": log.width,
        "bytes_per_event": sent / events,
        "least_bytes_per_event": least / events,
        "over_least": sent / least,
        "collectives_per_batch": ranks[0].collectives / ranks[0].batches,
        "wanted_per_fetched": sum(r.rows_wanted for r in ranks) / sum(r.rows_fetched for r in ranks),
        "ms_per_batch": {name: 1e3 * value / ranks[0].batches for name, value in stages.items()},
    }


def print_table(results: list[dict[str, Any]]) -> None:
    table = Table("log", "ranks", "mode", "D", title="Bytes between ranks")
    for heading in (
        "bytes/event",
        "least",
        "÷ least",
        "collectives",
        "wanted/fetched",
        "plan/fetch/record ms",
    ):
        table.add_column(heading, justify="right")
    for row in results:
        table.add_row(
            row["log"],
            str(row["ranks"]),
            row["mode"],
            str(row["width"]),
            f"{row['bytes_per_event']:,.0f}",
            f"{row['least_bytes_per_event']:,.0f}",
            f"{row['over_least']:.3f}",
            f"{row['collectives_per_batch']:.1f}",
            f"{row['wanted_per_fetched']:.2f}",
            " / ".join(f"{value:.1f}" for value in row["ms_per_batch"].values()),
        )
    Console(width=150).print(table)


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    results = []
    modes: tuple[Mode, ...] = ("ends", "neighbors")
    for num_ranks in settings.ranks:
        pool = RankPool(num_ranks)
        for log in load_logs(settings):
            for mode in modes:
                figures = pool.run(measure_rank, log, mode, settings.batch_size, seconds=3600.0)
                results.append(summarise(log, num_ranks, mode, figures))
        pool.close()
    print_table(results)
    print_results_line("exchange", {"batch_size": settings.batch_size, "figures": results})


if __name__ == "__main__":
    main()
