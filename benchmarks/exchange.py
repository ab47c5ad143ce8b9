"""How many bytes the ranks exchange per event, with and without the row cache, against the least possible.

    python -m benchmarks.exchange --ranks 2 4 --data data/uci data/wikipedia --dtypes float32 bfloat16
    python -m benchmarks.exchange                      # a random log, no data needed

The least without a cache: every remote row a rank needs once per batch (L·D numbers), and one summed message
per remote row and sending rank (k·D numbers). With a cache: of those rows only the ones recorded since the
rank had them last, counted here from the events alone, whatever the memory does.

`ends`: a rank needs the rows of its slice's sources and destinations. `neighbors`: also one negative
destination per event and the 20 most recent neighbours of all three. Real gloo ranks on this machine, one
thread each; what is measured comes after a stretch that fills the caches.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks.exchange_logs import Log, random_log, real_log
from benchmarks.results_line import print_results_line
from tests.rank_pool import RankPool
from tpnet_dist.flags import Count
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.neighbor_build import EventChunk, build_neighbor_index
from tpnet_dist.memory.pipeline import BATCHES_PER_PLAN
from tpnet_dist.memory.plan import BatchEvents
from tpnet_dist.memory.sharded_neighbors import ShardedNeighbors
from tpnet_dist.memory.walks import Walk
from tpnet_dist.ranks.account import ExchangeAccount
from tpnet_dist.ranks.blocks import Blocks
from tpnet_dist.ranks.portions import Portions
from tpnet_dist.ranks.world import World

HOPS, NEIGHBORS = 3, 20
Mode = Literal["ends", "neighbors"]
Dtype = Literal["float32", "bfloat16"]


@dataclass(kw_only=True)
class Settings:
    """What to run it on."""

    ranks: tuple[int, ...] = (2, 4)
    data: tuple[Path, ...] = ()
    """Data folders."""
    random_nodes: Count = 20_000
    """Of a random log that is measured besides them, as many as the paper's with 1e6 edges; 0: none."""
    events: Count = 20_000
    """Events of each log that are measured."""
    warm_up: Count = 20_000
    """Events before them that are exchanged too, but not counted."""
    batch_size: int = 200
    modes: tuple[Mode, ...] = ("ends", "neighbors")
    dtypes: tuple[Dtype, ...] = ("float32",)
    """In what rows travel."""


@dataclass(frozen=True)
class Variant:
    """One way of exchanging."""

    mode: Mode
    dtype: Dtype
    has_cache: bool


@dataclass(frozen=True)
class RankFigures:
    account: ExchangeAccount
    least_bytes: int


class LeastRows:
    """Counts the remote rows that have to travel to a rank, by when each was fetched and changed last."""

    def __init__(self, num_nodes: int, first_own: int, stop_own: int, has_cache: bool) -> None:
        self.own, self.has_cache = (first_own, stop_own), has_cache
        self.fetched_N, self.changed_N = np.full(num_nodes, -1), np.full(num_nodes, -1)

    def of_batch(self, number: int, wanted: Tensor, events: BatchEvents) -> int:
        remote = self.remote(wanted)
        travels = remote[self.fetched_N[remote] <= self.changed_N[remote]] if self.has_cache else remote
        self.fetched_N[remote] = number
        # after the fetch of its own batch
        self.changed_N[torch.cat([events.src_B, events.dst_B]).numpy()] = number
        return len(travels)

    def remote(self, nodes: Tensor) -> np.ndarray[Any, np.dtype[np.int64]]:
        distinct = np.unique(nodes.numpy())
        return distinct[(distinct < self.own[0]) | (distinct >= self.own[1])]


def measure_rank(world: World, log: Log, variant: Variant, warm_up: int, batch_size: int) -> RankFigures:
    exchange, blocks = world.new_exchange(), Blocks(log.num_nodes, world.num_ranks)
    memory = Memory(
        log.num_nodes,
        Walk("decay", HOPS, 1e-7),
        log.width,
        exchange=exchange,
        exchange_dtype=getattr(torch, variant.dtype),
        cache_rows=log.num_nodes if variant.has_cache else 0,
    )
    neighbors = build_neighbors(world, log, blocks) if variant.mode == "neighbors" else None
    rows = LeastRows(log.num_nodes, *blocks.range_of(world.rank), variant.has_cache)
    layer_bytes, least = log.width * getattr(torch, variant.dtype).itemsize, 0
    run_events = BATCHES_PER_PLAN * batch_size
    for start in range(log.first, len(log.src), run_events):
        if start == log.first + warm_up:
            exchange.account, least = ExchangeAccount(), 0
        run = range(start, min(start + run_events, len(log.src)), batch_size)
        batches = [events_of(log, first, batch_size) for first in run]
        slices = [slice_of(events, memory.portions) for events in batches]
        needed = [needed_nodes(neighbors, mine, log, at) for at, mine in zip(run, slices, strict=True)]
        for at, events, mine, further in zip(run, batches, slices, needed, strict=True):
            ends = torch.cat([mine.src_B, mine.dst_B])
            wanted = ends if further is None else torch.cat([ends, further])
            least += rows.of_batch(at, wanted, events) * (HOPS + 1) * layer_bytes
            least += len(rows.remote(ends)) * HOPS * layer_bytes
        for plan in memory.plan_run(batches, needed):
            memory.record(plan, memory.fetch(plan))
    return RankFigures(exchange.account, least)


def events_of(log: Log, first: int, batch_size: int) -> BatchEvents:
    rows = slice(first, first + batch_size)
    return BatchEvents(log.src[rows], log.dst[rows], log.time[rows])


def slice_of(events: BatchEvents, portions: Portions) -> BatchEvents:
    here = portions.slice_of(len(events))
    return BatchEvents(events.src_B[here], events.dst_B[here], events.time_B[here])


def build_neighbors(world: World, log: Log, blocks: Blocks) -> ShardedNeighbors:
    src, dst = (column.numpy().astype(np.int32) for column in (log.src, log.dst))

    def chunks() -> Iterator[EventChunk]:
        yield EventChunk(src, dst, log.time.numpy(), np.arange(len(src)))

    index = build_neighbor_index(chunks, *blocks.range_of(world.rank))
    # on an exchange of its own: the look-ups' bytes are not rows
    return ShardedNeighbors(index, log.num_nodes, world.new_exchange())


def needed_nodes(
    neighbors: ShardedNeighbors | None, mine: BatchEvents, log: Log, first: int
) -> Tensor | None:
    if neighbors is None:
        return None
    generator = torch.Generator().manual_seed(first)
    negative = log.dst[torch.randint(0, len(log.dst), (len(mine),), generator=generator)]
    ends = torch.cat([mine.src_B, mine.dst_B, negative])
    found = neighbors.recent(ends, torch.full_like(ends, first), count=NEIGHBORS)
    return torch.cat([ends, found.ids_BM[found.mask_BM]])


def summarise(
    log: Log, num_ranks: int, variant: Variant, events: int, ranks: list[RankFigures]
) -> dict[str, Any]:
    accounts = [rank.account for rank in ranks]
    total = {
        name: sum(getattr(account, name) for account in accounts)
        for name in ("bytes_sent", "bytes_saved", "rows_wanted", "rows_fetched", "rows_remote", "rows_held")
    }
    least = sum(rank.least_bytes for rank in ranks)
    stages = {name: sum(one.seconds[name] for one in accounts) / len(ranks) for name in accounts[0].seconds}
    return {
        "log": log.name,
        "ranks": num_ranks,
        **vars(variant),
        "width": log.width,
        "bytes_per_event": total["bytes_sent"] / events,
        "least_bytes_per_event": least / events,
        "over_least": total["bytes_sent"] / least,
        "bytes_saved_per_event": total["bytes_saved"] / events,
        "remote_rows_per_event": total["rows_remote"] / events,
        "hit_rate": total["rows_held"] / max(1, total["rows_remote"]),
        "collectives_per_batch": accounts[0].collectives / accounts[0].batches,
        "wanted_per_fetched": total["rows_wanted"] / total["rows_fetched"],
        "ms_per_batch": {name: 1e3 * value / accounts[0].batches for name, value in stages.items()},
    }


def print_table(results: list[dict[str, Any]]) -> None:
    table = Table("log", "ranks", "mode", "dtype", "cache", title="Bytes between ranks")
    for heading in ("bytes/event", "least", "÷ least", "hits", "collectives", "plan/fetch/record ms"):
        table.add_column(heading, justify="right")
    for row in results:
        table.add_row(
            row["log"],
            str(row["ranks"]),
            row["mode"],
            row["dtype"],
            "on" if row["has_cache"] else "off",
            f"{row['bytes_per_event']:,.0f}",
            f"{row['least_bytes_per_event']:,.0f}",
            f"{row['over_least']:.3f}",
            f"{row['hit_rate']:.1%}",
            f"{row['collectives_per_batch']:.1f}",
            " / ".join(f"{value:.1f}" for value in row["ms_per_batch"].values()),
        )
    Console(width=150).print(table)


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    # whole runs of batches are planned together
    run_events = BATCHES_PER_PLAN * settings.batch_size
    warm_up = settings.warm_up // run_events * run_events
    logs = [real_log(folder, warm_up + settings.events) for folder in settings.data]
    if settings.random_nodes:
        logs.append(random_log(settings.random_nodes, warm_up + settings.events))
    results = []
    for num_ranks in settings.ranks:
        pool = RankPool(num_ranks)
        variants = product(logs, settings.modes, settings.dtypes, (False, True))
        for log, mode, dtype, has_cache in variants:
            variant = Variant(mode, dtype, has_cache)
            figures = pool.run(measure_rank, log, variant, warm_up, settings.batch_size, seconds=3600.0)
            events = len(log.src) - log.first - warm_up
            results.append(summarise(log, num_ranks, variant, events, figures))
        pool.close()
    print_table(results)
    print_results_line("exchange", {"batch_size": settings.batch_size, "figures": results})


if __name__ == "__main__":
    main()
