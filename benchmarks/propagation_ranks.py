"""The part of `propagation` that compares ranks: several of one thread against one, taking turns.

`columns`: every rank has some columns of all nodes' rows, records every event on them without a message, and
swaps columns for whole rows in the end; each turn begins with a fresh memory. `recording` leaves out drawing
P and the swap, `whole` has both; one rank draws P before its turn. `nodes`: every rank has the rows of some
nodes, and rows are borrowed once for a run of batches; turns go on where the last one ended.
"""

import statistics
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import islice
from typing import Literal

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import GIB, StopWatch, seconds_of, take_turns
from benchmarks.propagation_against import Size
from benchmarks.rank_pool import RankPool
from benchmarks.recorder import DECAY, HOPS, RUN_BATCHES, random_runs
from tpnet_dist.distributed.exchange_stats import ExchangeStats
from tpnet_dist.distributed.host_memory import keep_large_buffers
from tpnet_dist.distributed.world import World
from tpnet_dist.memory.event_run import EventRun
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.walks import Walk

Layout = Literal["columns", "nodes"]
SECONDS_PER_TASK = 3600.0
BORROWED_BYTES = GIB
"""The bytes that copies of other ranks' rows may take on a rank, by node."""


@dataclass(frozen=True)
class Task:
    """What every rank records in a turn."""

    size: Size
    layout: Layout
    num_runs: int

    @property
    def num_events(self) -> int:
        return self.num_runs * RUN_BATCHES * self.size.batch_size


@dataclass(frozen=True)
class Turn:
    """One rank's seconds, and what came to it."""

    recording: float
    whole: float
    stages: dict[str, float]
    """Seconds by stage, from the exchange's stats."""
    bytes_received: int


@dataclass(frozen=True)
class RankComparison:
    """Medians over turns; a turn is over when the last rank is."""

    edges: int
    nodes: int
    width: int
    batch_size: int
    layout: Layout
    ranks: int
    events_per_second: float
    """Events per second of recording alone."""
    whole_events_per_second: float
    of_one_rank: float
    """Events per second of recording, over those of one rank."""
    whole_of_one_rank: float
    us_per_event: dict[str, float]
    """Microseconds per event by stage, mean over ranks and turns."""
    bytes_per_event: float
    """Bytes per event that came to a rank, mean over ranks and turns."""


class TimedRuns:
    """Hands runs out, and knows how long it took whoever recorded them."""

    def __init__(self, runs: list[EventRun]) -> None:
        self.runs, self.seconds = runs, 0.0

    def __iter__(self) -> Iterator[EventRun]:
        watch = StopWatch()
        yield from self.runs
        self.seconds = watch.lap()


class RankRecorder:
    """A rank's share of a memory, kept from turn to turn."""

    def __init__(self, world: World, size: Size, layout: Layout) -> None:
        keep_large_buffers()
        torch.set_num_threads(1)
        self.world, self.layout = world, layout
        self.runs = random_runs(size.nodes, size.batch_size)
        self.memory = Memory(
            size.nodes,
            Walk("decay", HOPS, DECAY),
            size.width,
            exchange=world.new_exchange(),
            borrowed_rows=BORROWED_BYTES // ((HOPS + 1) * size.width * 4),
            catch_up=layout,
        )

    def record(self, num_runs: int) -> Turn:
        memory, runs = self.memory, TimedRuns(list(islice(self.runs, num_runs)))
        if self.layout == "columns":
            # they begin with the first event
            memory.reset(0)
        memory.exchange.stats = stats = ExchangeStats()
        self.world.wait_for_all()
        whole = seconds_of(lambda: memory.catch_up(runs, sum(run.num_events for run in runs.runs)))
        return Turn(runs.seconds, whole, stats.seconds, stats.bytes_received)


def record_on_rank(world: World, task: Task) -> Turn:
    return recorder_of(world, task.size, task.layout).record(task.num_runs)


@cache
def recorder_of(world: World, size: Size, layout: Layout) -> RankRecorder:
    return RankRecorder(world, size, layout)


def measure_ranks(
    sizes: list[Size], ranks: int, layouts: tuple[Layout, ...], *, events: int, turns: int
) -> list[RankComparison]:
    """Compare numbers of ranks, on about so many events each turn."""
    tasks = [
        Task(size, layout, max(1, events // RUN_BATCHES // size.batch_size))
        for size in sizes
        for layout in layouts
    ]
    return [one for task in tasks for one in _compare(task, ranks, turns)]


def _compare(task: Task, ranks: int, turns: int) -> Iterator[RankComparison]:
    with ExitStack() as stack:
        pools = {number: stack.enter_context(closing(RankPool(number))) for number in (1, ranks)}
        acts = {number: partial(_turn, pool, task) for number, pool in pools.items()}
        taken = take_turns(acts, turns=turns)
    found = [_summarise(task, number, of_turns) for number, of_turns in taken.items()]
    for one in found:
        yield replace(
            one,
            of_one_rank=one.events_per_second / found[0].events_per_second,
            whole_of_one_rank=one.whole_events_per_second / found[0].whole_events_per_second,
        )


def _turn(pool: RankPool, task: Task) -> list[Turn]:
    return pool.run(record_on_rank, task, seconds=SECONDS_PER_TASK)


def _summarise(task: Task, ranks: int, turns: list[list[Turn]]) -> RankComparison:
    everybody, count = [one for of_ranks in turns for one in of_ranks], task.num_events
    stages = dict.fromkeys(name for one in everybody for name in one.stages)
    return RankComparison(
        **asdict(task.size),
        layout=task.layout,
        ranks=ranks,
        events_per_second=count / statistics.median(max(one.recording for one in turn) for turn in turns),
        whole_events_per_second=count / statistics.median(max(one.whole for one in turn) for turn in turns),
        of_one_rank=1.0,
        whole_of_one_rank=1.0,
        us_per_event={
            name: 1e6 * statistics.fmean(one.stages.get(name, 0.0) for one in everybody) / count
            for name in stages
        },
        bytes_per_event=statistics.fmean(one.bytes_received for one in everybody) / count,
    )


def print_rank_comparisons(figures: list[RankComparison]) -> None:
    table = Table(title="Recording events nobody reads, ranks of one thread")
    for heading in (
        "edges",
        "nodes",
        "D",
        "batch",
        "layout",
        "ranks",
        "events/s",
        "× 1 rank",
        "whole, events/s",
    ):
        table.add_column(heading, justify="right")
    for heading in ("× 1 rank", "KB/event", "µs/event by stage"):
        table.add_column(heading, justify="right")
    for one in figures:
        table.add_row(
            *(f"{one.edges:.0e}", f"{one.nodes:,}", str(one.width), f"{one.batch_size:,}"),
            *(one.layout, str(one.ranks)),
            *(f"{one.events_per_second:,.0f}", f"{one.of_one_rank:.2f}"),
            *(f"{one.whole_events_per_second:,.0f}", f"{one.whole_of_one_rank:.2f}"),
            f"{one.bytes_per_event / 1e3:.2f}",
            ", ".join(f"{name} {value:.2f}" for name, value in one.us_per_event.items()),
        )
    Console(width=170).print(table)
