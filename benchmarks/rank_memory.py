"""How a rank's share of rows and neighbours shrinks with the number of ranks, as it lies in real memory.

    python -m benchmarks.rank_memory [--events 1e7] [--ranks 1 2 4]

Each rank is a process of its own. It builds the neighbour index of its nodes from the Parquet shards of a
random log, allocates its rows, writes every one of them as a long run would, and records the first events
together with the others. Its peak is what its resident set grew to beyond what it was after the same with a
small log: with the buffers of reading and planning, which do not shrink. Ideal is what one rank takes divided
by their number. Few events are recorded by node; `--catch-up columns` has them recorded by columns of all
nodes, which are swapped for whole rows in the end.
"""

import shutil
import tempfile
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import MIB, peak_bytes, reset_peak_memory, resident_bytes
from benchmarks.rank_pool import RankPool
from benchmarks.results_line import print_results_line
from data_prep.synth import make_log
from tpnet_dist.batches.event_batches import replay
from tpnet_dist.batches.run_data import chunks_of, plan_of
from tpnet_dist.config.schema import Config, DataConfig, MemoryConfig
from tpnet_dist.config.whole_numbers import Count
from tpnet_dist.distributed.blocks import Blocks
from tpnet_dist.distributed.world import World
from tpnet_dist.evaluation.model_parts import build_memory
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.view import EventView
from tpnet_dist.memory.memory import CatchUp
from tpnet_dist.neighbors.build import build_neighbor_index

SMALL_EVENTS = 100_000
SECONDS_PER_TASK = 3600.0


@dataclass(kw_only=True)
class Settings:
    """The size of the graph, and the numbers of ranks."""

    events: Count = 10_000_000
    ranks: tuple[int, ...] = (1, 2, 4)
    recorded_batches: int = 64
    """The number of batches of 200 events that all ranks together record."""
    catch_up: CatchUp = "auto"
    """The memory's setting `catch_up`: how the events are recorded."""


@dataclass(frozen=True)
class RankMemory:
    """Bytes of one rank."""

    rows: int
    neighbors: int
    peak: int
    """The peak of resident memory, beyond what the process had before."""

    @property
    def tables(self) -> int:
        return self.rows + self.neighbors


def measure_rank(
    world: World, small: str, folder: str, recorded_batches: int, catch_up: CatchUp
) -> RankMemory:
    # code, buffers of libraries and of reading: the same on every rank, however many there are
    build_and_record(world, small, recorded_batches, catch_up)
    reset_peak_memory()
    before = resident_bytes()
    rows, neighbors = build_and_record(world, folder, recorded_batches, catch_up)
    return RankMemory(rows, neighbors, peak_bytes() - before)


def build_and_record(world: World, folder: str, recorded_batches: int, catch_up: CatchUp) -> tuple[int, int]:
    """Build the index and record events; return the bytes of rows and of neighbours."""
    log = EventLog(folder)
    config = Config(data=DataConfig(folder=folder), memory=MemoryConfig(catch_up=catch_up))
    everything, blocks = EventView(log, 0, len(log)), Blocks(log.num_nodes, world.num_ranks)
    index = build_neighbor_index(lambda: chunks_of(everything), *blocks.range_of(world.rank))
    memory = build_memory(config, log, world.new_exchange(), world.device, seed=0, borrowed_rows=0)
    assert memory is not None
    memory.table.rows_NLD.add_(0)
    plan = plan_of(everything, config, config.training.batch_size)
    replay(memory, log, everything, plan, recorded_batches)
    return memory.table.rows_NLD.nbytes, index.bytes()


def summarise(number: int, ranks: list[RankMemory], alone: RankMemory) -> dict[str, Any]:
    """Return the largest rank's figures; its shares are of the ideal, a part of what one rank takes alone."""
    largest = max(ranks, key=lambda rank: rank.peak)
    return {
        "ranks": number,
        **asdict(largest),
        "tables_of_ideal": alone.tables / number / largest.tables,
        "peak_of_ideal": alone.peak / number / largest.peak,
    }


def show(results: list[dict[str, Any]], events: int) -> None:
    table = Table("ranks", title=f"Largest rank at {events:,} events, MiB")
    for heading in ("rows", "neighbours", "ideal ÷ both", "peak", "ideal ÷ peak"):
        table.add_column(heading, justify="right")
    for row in results:
        rows, neighbors, peak = (f"{row[name] / MIB:,.0f}" for name in ("rows", "neighbors", "peak"))
        tables_share, peak_share = (f"{row[f'{name}_of_ideal']:.3f}" for name in ("tables", "peak"))
        table.add_row(str(row["ranks"]), rows, neighbors, tables_share, peak, peak_share)
    Console(width=100).print(table)


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    folder = Path(tempfile.mkdtemp(prefix="rank-memory-"))
    try:
        make_log(folder / "small", kind="random", events=SMALL_EVENTS)
        make_log(folder / "log", kind="random", events=settings.events)
        measured: dict[int, list[RankMemory]] = {}
        for number in sorted({1, *settings.ranks}):
            with closing(RankPool(number)) as pool:
                args = (str(folder / "small"), str(folder / "log"))
                how = (settings.recorded_batches, settings.catch_up)
                ranks = pool.run(measure_rank, *args, *how, seconds=SECONDS_PER_TASK)
            measured[number] = ranks
    finally:
        shutil.rmtree(folder)
    [alone] = measured[1]
    results = [summarise(number, ranks, alone) for number, ranks in measured.items()]
    show(results, settings.events)
    print_results_line("rank_memory", {**asdict(settings), "figures": results})


if __name__ == "__main__":
    main()
