"""What ranks exchange per event, by how many batches they meet for at once, beside what was simulated.

    python -m benchmarks.exchange --ranks 2 4 --data build/data/uci build/data/wikipedia
    python -m benchmarks.exchange                      # a random log, no data needed

A rank meets the others once for a run of batches: it borrows the rows that its slices read and that its own
rows need, and replays events on them. Told per rank: bytes that came to it, mean over ranks; collectives, of
rows and of neighbour look-ups apart, one look-up for all batches of a run; and of one rank's recording, layer
by layer, the share that it replays. `auto`: runs as long as the memory chooses.

Simulated is what the design counted on: for every run the closure of what is wanted, from scratch, with no
row there from before and layer 0 left out, which never changes. Measured is everything, ids and clocks
included, but rows that are right from earlier runs do not travel again. So the ratio may be above or below 1.

`record`: nothing is read. `ends`: a rank reads the rows of its slice's sources and destinations. `neighbors`:
also one negative destination per event and the 20 most recent neighbours of all three. Real gloo ranks on
this machine, one thread each; what is measured comes after a stretch that is exchanged too.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
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
from benchmarks.rank_pool import RankPool
from benchmarks.results_line import print_results_line
from tpnet_dist.config.whole_numbers import Count
from tpnet_dist.distributed.blocks import Blocks
from tpnet_dist.distributed.exchange_stats import ExchangeStats
from tpnet_dist.distributed.world import World
from tpnet_dist.memory.closure import close
from tpnet_dist.memory.event_run import BatchEvents, EventRun
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.run_plan import RunPlan
from tpnet_dist.memory.walks import Walk
from tpnet_dist.neighbors.build import EventChunk, build_neighbor_index
from tpnet_dist.neighbors.sharded import ShardedNeighbors

HOPS, NEIGHBORS, KB = 3, 20, 1000
Mode = Literal["record", "ends", "neighbors"]
Dtype = Literal["float32", "bfloat16"]
RunBatches = int | Literal["auto"]


@dataclass(kw_only=True)
class Settings:
    """The ranks, logs and settings of the exchanges that are measured."""

    ranks: tuple[int, ...] = (2, 4)
    data: tuple[Path, ...] = ()
    """The data folders."""
    random_nodes: Count = 20_000
    """The nodes of a random log that is measured besides, as many as the paper's with 1e6 edges; 0: none."""
    events: Count = 19_200
    """Events of each log that are measured: three runs of 32 batches, unless told otherwise."""
    warm_up: Count = 19_200
    """Events before them that are exchanged too, but not counted."""
    batch_size: int = 200
    run_batches: tuple[RunBatches, ...] = (1, 8, 32, "auto")
    """The number of batches that ranks meet for at once."""
    borrowed_rows: Count | None = None
    """The copies of others' rows that a rank keeps; by default as many as there are."""
    modes: tuple[Mode, ...] = ("ends", "neighbors")
    dtypes: tuple[Dtype, ...] = ("float32",)
    """The types in which rows travel."""


@dataclass(frozen=True)
class Variant:
    """One way of exchanging."""

    mode: Mode
    dtype: Dtype
    run_batches: RunBatches


@dataclass(frozen=True)
class Extent:
    """The part of a log that is exchanged, and its slices."""

    measured_from: int
    batch_size: int
    borrowed_rows: int


@dataclass
class RankFigures:
    """Counts of the measured runs of one rank."""

    rows: ExchangeStats
    lookups: ExchangeStats
    simulated_bytes: int = 0
    """Bytes of layers 1 and above that would be borrowed if none were there already."""
    layers_replayed: int = 0
    """Ends of events, each counted as often as it changes a layer of a row."""


class RankExchange:
    """One rank's memory and neighbours, run after run."""

    def __init__(self, world: World, log: Log, variant: Variant, extent: Extent) -> None:
        self.log, self.extent, self.mode = log, extent, variant.mode
        self.own = range(*Blocks(log.num_nodes, world.num_ranks).range_of(world.rank))
        self.slices = world.batch_slices(None)
        self.memory = Memory(
            log.num_nodes,
            Walk("decay", HOPS, 1e-7),
            log.width,
            exchange=world.new_exchange(),
            exchange_dtype=getattr(torch, variant.dtype),
            borrowed_rows=extent.borrowed_rows,
            run_batches=None if variant.run_batches == "auto" else variant.run_batches,
        )
        # on an exchange of its own: the look-ups' bytes are not rows
        self.neighbors = build_neighbors(world, log, self.own)
        self.layer_bytes = log.width * getattr(torch, variant.dtype).itemsize

    def measure(self) -> RankFigures:
        border = self.extent.measured_from
        for start, stop in ((self.log.first, border), (border, len(self.log.src))):
            figures = self._start()
            for plan in self.memory.runs.in_turn(self._plans(start, stop, figures)):
                for batch in range(plan.num_batches):
                    self.memory.read(plan, batch)
                    self.memory.record(plan, range(batch, batch + 1))
        return figures

    def _start(self) -> RankFigures:
        """Count from here on."""
        self.memory.exchange.stats, self.neighbors.exchange.stats = ExchangeStats(), ExchangeStats()
        return RankFigures(self.memory.exchange.stats, self.neighbors.exchange.stats)

    def _plans(self, start: int, stop: int, figures: RankFigures) -> Iterator[RunPlan]:
        """Yield the plans of the runs of these events."""
        while start < stop:
            end = min(stop, start + self.memory.runs.length.batches() * self.extent.batch_size)
            firsts = range(start, end, self.extent.batch_size)
            batches = [self._events(first, min(first + self.extent.batch_size, end)) for first in firsts]
            plan = self.memory.plan(batches, self._reads(firsts, batches))
            self._simulate(figures, EventRun.of(batches), plan)
            yield plan
            start = end

    def _events(self, first: int, stop: int) -> BatchEvents:
        rows = slice(first, stop)
        return BatchEvents(self.log.src[rows], self.log.dst[rows], self.log.time[rows])

    def _reads(self, firsts: range, batches: list[BatchEvents]) -> list[Tensor | None]:
        """Return for each batch the nodes that this rank's slice reads, with one look-up of neighbours for
        all."""
        if self.mode == "record":
            return [None] * len(batches)
        slices = [self.slices.slice_of(len(batch)) for batch in batches]
        ends = [
            torch.cat([batch.src_B[here], batch.dst_B[here]])
            for batch, here in zip(batches, slices, strict=True)
        ]
        if self.mode == "ends":
            return [*ends]
        ends = [
            torch.cat([of_batch, self._negatives(first, len(of_batch) // 2)])
            for first, of_batch in zip(firsts, ends, strict=True)
        ]
        before = [torch.full_like(of_batch, first) for first, of_batch in zip(firsts, ends, strict=True)]
        found = self.neighbors.recent(torch.cat(ends), torch.cat(before), count=NEIGHBORS)
        of_batches = found.split([len(of_batch) for of_batch in ends])
        return [
            torch.cat([of_batch, some.ids_BM[some.mask_BM]])
            for of_batch, some in zip(ends, of_batches, strict=True)
        ]

    def _negatives(self, seed: int, count: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return self.log.dst[torch.randint(0, len(self.log.dst), (count,), generator=generator)]

    def _simulate(self, figures: RankFigures, run: EventRun, plan: RunPlan) -> None:
        closure = close(run, plan.nodes, self.own, HOPS)
        figures.simulated_bytes += int(closure.need_U.clip(min=0).sum()) * self.layer_bytes
        figures.layers_replayed += int(plan.ends.hops_E.sum())


def measure_rank(world: World, log: Log, variant: Variant, extent: Extent) -> RankFigures:
    return RankExchange(world, log, variant, extent).measure()


def build_neighbors(world: World, log: Log, own: range) -> ShardedNeighbors:
    src, dst = (column.numpy().astype(np.int32) for column in (log.src, log.dst))

    def chunks() -> Iterator[EventChunk]:
        yield EventChunk(src, dst, log.time.numpy(), np.arange(len(src)))

    index = build_neighbor_index(chunks, own.start, own.stop)
    return ShardedNeighbors(index, log.num_nodes, world.new_exchange())


def summarise(
    log: Log, num_ranks: int, variant: Variant, events: int, ranks: list[RankFigures]
) -> dict[str, Any]:
    """Return the figures of a rank, mean over ranks; collectives are the same on all."""
    rows, lookups = ranks[0].rows, ranks[0].lookups
    received = sum(rank.rows.bytes_received for rank in ranks) / num_ranks
    simulated = sum(rank.simulated_bytes for rank in ranks) / num_ranks
    needed = sum(rank.rows.rows_needed for rank in ranks)
    borrowed = sum(rank.rows.rows_borrowed for rank in ranks)
    names = dict.fromkeys(name for rank in ranks for name in rank.rows.seconds)
    return {
        "log": log.name,
        "ranks": num_ranks,
        **asdict(variant),
        "width": log.width,
        "batches_per_run": rows.batches / rows.runs,
        "kb_per_event": received / events / KB,
        "simulated_kb_per_event": simulated / events / KB,
        "of_simulated": received / simulated if simulated else None,
        "share_replayed": sum(rank.layers_replayed for rank in ranks) / num_ranks / (2 * events * HOPS),
        "rows_there_already": 1 - borrowed / needed if needed else None,
        "collectives_per_batch": rows.collectives / rows.batches,
        "collectives_per_run": rows.collectives / rows.runs,
        "lookup_collectives_per_batch": lookups.collectives / rows.batches,
        "lookup_collectives_per_run": lookups.collectives / rows.runs,
        "lookup_kb_per_event": sum(rank.lookups.bytes_received for rank in ranks) / num_ranks / events / KB,
        "ms_per_batch": {
            name: 1e3 * sum(rank.rows.seconds[name] for rank in ranks) / num_ranks / rows.batches
            for name in names
        },
    }


def print_table(results: list[dict[str, Any]]) -> None:
    table = Table("log", "ranks", "mode", "dtype", "runs of", title="What a rank exchanges")
    for heading in ("KB/event", "simulated", "÷", "replayed", "were there", "collectives per batch, run"):
        table.add_column(heading, justify="right")
    for heading in ("look-ups: KB/event", "per batch, run", "plan, borrow, read, record ms"):
        table.add_column(heading, justify="right")
    for row in results:
        length = f"{row['run_batches']}"
        table.add_row(
            *(row["log"], str(row["ranks"]), row["mode"], row["dtype"]),
            f"{length} ({row['batches_per_run']:.0f})" if length == "auto" else length,
            *(f"{row[name]:.3f}" for name in ("kb_per_event", "simulated_kb_per_event")),
            *(_share(row[name]) for name in ("of_simulated", "share_replayed", "rows_there_already")),
            f"{row['collectives_per_batch']:.2f}, {row['collectives_per_run']:.0f}",
            f"{row['lookup_kb_per_event']:.3f}",
            f"{row['lookup_collectives_per_batch']:.2f}, {row['lookup_collectives_per_run']:.0f}",
            ", ".join(f"{value:.1f}" for value in row["ms_per_batch"].values()),
        )
    Console(width=190).print(table)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    warm_up = settings.warm_up // settings.batch_size * settings.batch_size
    logs = [real_log(folder, warm_up + settings.events) for folder in settings.data]
    if settings.random_nodes:
        logs.append(random_log(settings.random_nodes, warm_up + settings.events))
    results = []
    for num_ranks in settings.ranks:
        pool = RankPool(num_ranks, keeps_groups=False)
        for log, mode, dtype, length in product(logs, settings.modes, settings.dtypes, settings.run_batches):
            variant, start = Variant(mode, dtype, length), log.first + warm_up
            borrowed = log.num_nodes if settings.borrowed_rows is None else settings.borrowed_rows
            extent = Extent(start, settings.batch_size, borrowed)
            figures = pool.run(measure_rank, log, variant, extent, seconds=3600.0)
            results.append(summarise(log, num_ranks, variant, len(log.src) - start, figures))
        pool.close()
    print_table(results)
    print_results_line("exchange", {"batch_size": settings.batch_size, "figures": results})


if __name__ == "__main__":
    main()
