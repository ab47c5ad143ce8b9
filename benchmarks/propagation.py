"""What recording events costs, from the paper's smallest random graph to its largest.

    python -m benchmarks.propagation                        # all four sizes: 1e5, 1e6, 1e7, 1e8 edges
    python -m benchmarks.propagation --edges 1e5 1e6 --batch-sizes 200

For each size the memory has the paper's nodes and width (n = 2·edges/100, D = 10·⌊ln 2·edges⌋, 3 hops), in a
process of its own. Measured is what the pipeline does for batches of random events: plan 32 at a time, fetch
the rows of both ends without self-products, record. In the same run, alternating with it, the literal
published update, which decays the whole table for every batch.
"""

import json
import math
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import torch
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.measured_process import run_python
from benchmarks.measuring import (
    GIB,
    Quantiles,
    StopWatch,
    peak_bytes,
    repeat_for,
    seconds_of,
    take_turns,
)
from benchmarks.results_line import print_results_line
from tests.reference.literal import LiteralMemory
from tpnet_dist.flags import Count
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.pipeline import BATCHES_PER_PLAN
from tpnet_dist.memory.plan import BatchEvents
from tpnet_dist.memory.walks import Walk
from tpnet_dist.ranks.host_memory import keep_large_buffers

HOPS = 3
DECAY = 1e-6
WARM_UP_RUNS = 4
LITERAL_BATCHES = 3

Stages = tuple[float, float, float]
"""Seconds of plan, fetch and record."""


@dataclass(kw_only=True)
class Settings:
    """Which sizes, and for how long."""

    edges: tuple[Count, ...] = (100_000, 1_000_000, 10_000_000, 100_000_000)
    """Edges of the random graphs; average degree 100."""
    batch_sizes: tuple[Count, ...] = (200, 2000)
    """Events per timestamp batch."""
    seconds: float = 5.0
    """How long each figure is measured."""
    in_this_process: bool = False
    """Measure the first size here and print JSON only; how the benchmark calls itself."""


@dataclass(frozen=True)
class Figures:
    """One size and batch size."""

    edges: int
    nodes: int
    width: int
    batch_size: int
    events_per_second: float
    plan_us: float
    fetch_us: float
    record_us: float
    batch_p50_us: float
    batch_p90_us: float
    ns_per_event_and_float: float
    """Seconds per event divided by the floats of a row, L·D."""
    literal_batch_us: float
    times_faster_than_literal: float
    resident_gib: float
    rows_gib: float


def measure_size(edges: int, batch_sizes: tuple[int, ...], seconds: float) -> Iterator[Figures]:
    keep_large_buffers()
    nodes, width = max(2, 2 * edges // 100), 10 * math.floor(math.log(2 * edges))
    memory = Memory(nodes, Walk("decay", HOPS, DECAY), width)
    measured: dict[int, list[Stages]] = {}
    for batch_size in batch_sizes:
        memory.reset(0)
        batches = random_batches(nodes, batch_size)
        for _ in range(WARM_UP_RUNS):
            record_run(memory, batches)
        measured[batch_size] = [stage for _ in repeat_for(seconds) for stage in record_run(memory, batches)]
    # before the literal form takes its own table
    resident = peak_bytes()
    literal = LiteralMemory(nodes, width, HOPS, DECAY, "decay", memory.table.rows_NLD[:, 0].clone())
    for batch_size, stages in measured.items():
        ours, theirs = compare(memory, literal, nodes, batch_size)
        totals = [sum(stage) for stage in stages]
        mean, taken = statistics.fmean(totals), Quantiles.of(totals)
        plan, fetch, recording = (statistics.mean(stage[i] for stage in stages) * 1e6 for i in range(3))
        yield Figures(
            edges=edges,
            nodes=nodes,
            width=width,
            batch_size=batch_size,
            events_per_second=batch_size / mean,
            plan_us=plan,
            fetch_us=fetch,
            record_us=recording,
            batch_p50_us=taken.p50 * 1e6,
            batch_p90_us=taken.p90 * 1e6,
            ns_per_event_and_float=mean / batch_size / ((HOPS + 1) * width) * 1e9,
            literal_batch_us=theirs * 1e6,
            times_faster_than_literal=theirs / ours,
            resident_gib=resident / GIB,
            rows_gib=nodes * (HOPS + 1) * width * 4 / GIB,
        )


def random_batches(nodes: int, batch_size: int) -> Iterator[BatchEvents]:
    """Uniform pairs, one event per second, for ever."""
    generator = torch.Generator().manual_seed(0)
    first = 0
    while True:
        ends = torch.randint(0, nodes, (2, batch_size), generator=generator)
        yield BatchEvents(ends[0], ends[1], torch.arange(first, first + batch_size, dtype=torch.float64))
        first += batch_size


def record_run(memory: Memory, batches: Iterator[BatchEvents]) -> list[Stages]:
    """As the pipeline does: plan a run of batches, then fetch and record one after another."""
    run = [next(batches) for _ in range(BATCHES_PER_PLAN)]
    watch, stages = StopWatch(), []
    plans = memory.plan_run(run)
    planning = watch.lap() / len(run)
    for plan in plans:
        watch.start()
        fetched = memory.fetch(plan, products=False)
        fetching = watch.lap()
        memory.record(plan, fetched)
        stages.append((planning, fetching, watch.lap()))
    return stages


def compare(memory: Memory, literal: LiteralMemory, nodes: int, batch_size: int) -> tuple[float, float]:
    """Median seconds per batch of both, alternating."""
    memory.reset(0)
    literal.time = None  # its clock starts with the batches
    ours, theirs = random_batches(nodes, batch_size), random_batches(nodes, batch_size)

    def record_literally() -> list[float]:
        events = next(theirs)
        return [seconds_of(lambda: literal.record(events.src_B, events.dst_B, events.time_B))]

    def record_ours() -> list[float]:
        return [sum(stage) for stage in record_run(memory, ours)]

    acts = {"ours": record_ours, "literal": record_literally}
    taken = take_turns(acts, turns=LITERAL_BATCHES, warm_up=0)
    ours_taken, literals_taken = ([*chain.from_iterable(turns)] for turns in taken.values())
    return statistics.median(ours_taken), statistics.median(literals_taken)


def print_table(figures: list[dict[str, Any]]) -> None:
    table = Table(title="Recording events")
    for heading in ("edges", "nodes", "D", "batch", "events/s", "plan µs", "fetch µs", "record µs"):
        table.add_column(heading, justify="right")
    for heading in ("P50 µs", "P90 µs", "ns/ev·float", "× literal", "RSS GiB", "rows GiB"):
        table.add_column(heading, justify="right")
    for row in figures:
        table.add_row(
            f"{row['edges']:.0e}",
            f"{row['nodes']:,}",
            str(row["width"]),
            f"{row['batch_size']:,}",
            f"{row['events_per_second']:,.0f}",
            *(f"{row[name]:,.0f}" for name in ("plan_us", "fetch_us", "record_us")),
            *(f"{row[name]:,.0f}" for name in ("batch_p50_us", "batch_p90_us")),
            f"{row['ns_per_event_and_float']:.2f}",
            f"{row['times_faster_than_literal']:,.1f}",
            f"{row['resident_gib']:.2f}",
            f"{row['rows_gib']:.2f}",
        )
    Console(width=160).print(table)


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    if settings.in_this_process:
        rows = measure_size(settings.edges[0], settings.batch_sizes, settings.seconds)
        print(json.dumps([asdict(row) for row in rows]))
        return
    figures: list[dict[str, Any]] = []
    for edges in settings.edges:
        words = ["--edges", edges, "--batch-sizes", *settings.batch_sizes, "--seconds", settings.seconds]
        measured = run_python("-m", "benchmarks.propagation", *words, "--in-this-process")
        figures += json.loads(measured.output)
    print_table(figures)
    print_results_line("propagation", {"figures": figures})


if __name__ == "__main__":
    main()
