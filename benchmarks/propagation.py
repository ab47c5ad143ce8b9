"""What recording events costs, from the paper's smallest random graph to its largest.

    python -m benchmarks.propagation                        # all four sizes: 1e5, 1e6, 1e7, 1e8 edges
    python -m benchmarks.propagation --edges 1e5 1e6 --batch-sizes 200
    python -m benchmarks.propagation --batch-sizes 200 --against 30406be        # an earlier edition
    python -m benchmarks.propagation --batch-sizes 200 --ranks 2 --layout columns nodes
    python -m benchmarks.propagation --batch-sizes 200 --busy-core

For each size the memory has the paper's nodes and width (n = 2·edges/100, D = 10·⌊ln 2·edges⌋, 3 hops), in a
process of its own, on one rank with one thread. Measured is how the product records batches of random events
that nobody reads: up to 128 at a time are planned, then recorded. In the same run, alternating with it, the
literal published update, which decays the whole table for every batch.

With --against, --ranks or --busy-core that is measured instead: the same beside an earlier edition of the
memory, on several ranks beside one, or beside a process that keeps a core busy; all by turns.
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
from benchmarks.measuring import GIB, Quantiles, peak_bytes, repeat_for, seconds_of, take_turns
from benchmarks.propagation_against import (
    Comparison,
    Size,
    measure_against,
    measure_beside_spinner,
    print_comparisons,
)
from benchmarks.propagation_ranks import Layout, measure_ranks, print_rank_comparisons
from benchmarks.recorder import DECAY, HOPS, RUN_BATCHES, WARM_UP_RUNS, new_memory, random_runs
from benchmarks.results_line import print_results_line
from reference.literal import LiteralMemory
from tpnet_dist.config.whole_numbers import Count
from tpnet_dist.errors import InputError, errors_for_people
from tpnet_dist.memory.event_run import EventRun
from tpnet_dist.memory.memory import Memory

PROGRAM = "python -m benchmarks.propagation"
LITERAL_TURNS = 3
LITERAL_SECONDS = 0.3
"""The seconds of a turn of the literal form, which has at least one batch."""
STAGES = ("plan", "borrow", "record")


@dataclass(kw_only=True)
class Settings:
    """The sizes, the time for each, and what is compared."""

    edges: tuple[Count, ...] = (100_000, 1_000_000, 10_000_000, 100_000_000)
    """Edges of the random graphs; average degree 100."""
    batch_sizes: tuple[Count, ...] = (200, 2000)
    """Events per timestamp batch."""
    seconds: float = 5.0
    """The time that each figure is measured for, over all turns."""
    turns: int = 5
    """The number of turns of contestants that take turns; one more comes first and is not counted."""
    against: str | None = None
    """A commit up to 30406be: compare with the first edition of the memory as it was there."""
    ranks: int = 1
    """Compare so many ranks of one thread with one."""
    layout: tuple[Layout, ...] = ("columns", "nodes")
    """The ways in which several ranks share the work."""
    rank_events: Count = 1_000_000
    """About so many are recorded in a turn of several ranks."""
    busy_core: bool = False
    """Compare with the same beside a process that keeps a core busy."""
    in_this_process: bool = False
    """Measure the first size here and print JSON only; how the benchmark calls itself."""

    def sizes(self) -> list[Size]:
        return [size_of(edges, batch_size) for edges in self.edges for batch_size in self.batch_sizes]


@dataclass(frozen=True)
class Figures:
    """One size and batch size."""

    edges: int
    nodes: int
    width: int
    batch_size: int
    events_per_second: float
    plan_us: float
    borrow_us: float
    record_us: float
    """Microseconds that each stage takes per batch: planning, borrowing, recording."""
    batch_p50_us: float
    batch_p90_us: float
    """Microseconds of a batch's share of what is recorded at once."""
    ns_per_event_and_float: float
    """Seconds per event divided by the floats of a row, L·D."""
    literal_batch_us: float
    times_faster_than_literal: float
    resident_gib: float
    rows_gib: float


@dataclass(frozen=True)
class BatchTimes:
    """Seconds of a batch, mean over those recorded at once."""

    whole: float
    stages: tuple[float, ...]


def size_of(edges: int, batch_size: int) -> Size:
    return Size(edges, max(2, 2 * edges // 100), 10 * math.floor(math.log(2 * edges)), batch_size)


def measure_size(edges: int, batch_sizes: tuple[int, ...], seconds: float) -> Iterator[Figures]:
    sizes = [size_of(edges, batch_size) for batch_size in batch_sizes]
    memory = new_memory(sizes[0].nodes, sizes[0].width)
    measured: dict[Size, list[BatchTimes]] = {}
    for size in sizes:
        memory.reset(0)
        runs = random_runs(size.nodes, size.batch_size)
        for _ in range(WARM_UP_RUNS):
            record_run(memory, next(runs))
        measured[size] = [record_run(memory, next(runs)) for _ in repeat_for(seconds)]
    # before the literal form takes its own table
    resident = peak_bytes()
    projection_ND = memory.table.rows_NLD[:, 0].clone()
    literal = LiteralMemory(memory.num_nodes, memory.width, HOPS, DECAY, "decay", projection_ND)
    for size, times in measured.items():
        ours, theirs = compare(memory, literal, size)
        yield figures_of(size, times, ours=ours, theirs=theirs, resident=resident)


def record_run(memory: Memory, run: EventRun) -> BatchTimes:
    seconds = memory.exchange.stats.seconds
    before = [seconds.get(name, 0.0) for name in STAGES]
    whole = seconds_of(lambda: memory.catch_up([run], run.num_events))
    stages = [seconds.get(name, 0.0) - earlier for name, earlier in zip(STAGES, before, strict=True)]
    return BatchTimes(whole / run.num_batches, tuple(stage / run.num_batches for stage in stages))


def figures_of(size: Size, times: list[BatchTimes], *, ours: float, theirs: float, resident: int) -> Figures:
    """Summarise times. `ours`, `theirs`: seconds of a batch where we and the literal form took turns."""
    totals = [one.whole for one in times]
    mean, taken, floats = statistics.fmean(totals), Quantiles.of(totals), (HOPS + 1) * size.width
    by_stage = zip(*(one.stages for one in times), strict=True)
    plan, borrow, record = (1e6 * statistics.fmean(seconds) for seconds in by_stage)
    return Figures(
        **asdict(size),
        events_per_second=size.batch_size / mean,
        plan_us=plan,
        borrow_us=borrow,
        record_us=record,
        batch_p50_us=taken.p50 * 1e6,
        batch_p90_us=taken.p90 * 1e6,
        ns_per_event_and_float=1e9 * mean / size.batch_size / floats,
        literal_batch_us=theirs * 1e6,
        times_faster_than_literal=theirs / ours,
        resident_gib=resident / GIB,
        rows_gib=size.nodes * floats * 4 / GIB,
    )


def compare(memory: Memory, literal: LiteralMemory, size: Size) -> tuple[float, float]:
    """Return median seconds per batch of both, alternating."""
    memory.reset(0)
    literal.time = None  # its clock starts with the batches
    ours, theirs = random_runs(size.nodes, size.batch_size), random_runs(size.nodes, size.batch_size, 1)

    def record_literally() -> list[float]:
        return [record_batch(next(theirs)) for _ in repeat_for(LITERAL_SECONDS)]

    def record_batch(run: EventRun) -> float:
        src, dst, time = map(torch.from_numpy, (run.node_E[0::2], run.node_E[1::2], run.time_E[0::2]))
        return seconds_of(lambda: literal.record(src, dst, time))

    def record_ours() -> list[float]:
        return [record_run(memory, next(ours)).whole]

    acts = {"ours": record_ours, "literal": record_literally}
    taken = take_turns(acts, turns=LITERAL_TURNS, warm_up=0)
    ours_taken, literals_taken = ([*chain.from_iterable(turns)] for turns in taken.values())
    return statistics.median(ours_taken), statistics.median(literals_taken)


def print_table(figures: list[dict[str, Any]]) -> None:
    table = Table(title=f"Recording events on one thread, up to {RUN_BATCHES} batches at a time")
    for heading in ("edges", "nodes", "D", "batch", "events/s", "plan µs", "borrow µs", "record µs"):
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
            *(f"{row[f'{stage}_us']:,.1f}" for stage in STAGES),
            *(f"{row[name]:,.0f}" for name in ("batch_p50_us", "batch_p90_us")),
            f"{row['ns_per_event_and_float']:.2f}",
            f"{row['times_faster_than_literal']:,.1f}",
            f"{row['resident_gib']:.2f}",
            f"{row['rows_gib']:.2f}",
        )
    Console(width=160).print(table)


def run_alone(settings: Settings) -> None:
    figures: list[dict[str, Any]] = []
    for edges in settings.edges:
        args = ["--edges", edges, "--batch-sizes", *settings.batch_sizes, "--seconds", settings.seconds]
        measured = run_python("-m", "benchmarks.propagation", *args, "--in-this-process")
        figures += json.loads(measured.output)
    print_table(figures)
    print_results_line("propagation", {"figures": figures})


def run_comparison(settings: Settings) -> None:
    seconds, turns = settings.seconds / settings.turns, settings.turns
    if settings.against is not None:
        figures = measure_against(settings.against, settings.sizes(), seconds=seconds, turns=turns)
        _show("propagation_against", settings.against, figures)
    if settings.busy_core:
        figures = measure_beside_spinner(settings.sizes(), seconds=seconds, turns=turns)
        _show("propagation_busy_core", "beside a busy core", figures)
    if settings.ranks > 1:
        of_ranks = measure_ranks(
            settings.sizes(),
            settings.ranks,
            settings.layout,
            events=settings.rank_events,
            turns=turns,
        )
        print_rank_comparisons(of_ranks)
        print_results_line("propagation_ranks", {"figures": [asdict(one) for one in of_ranks]})


def _show(benchmark: str, other: str, figures: list[Comparison]) -> None:
    print_comparisons("Recording events on one thread", other, figures)
    print_results_line(benchmark, {"other": other, "figures": [asdict(one) for one in figures]})


def main() -> None:
    settings = tyro.cli(Settings, prog=PROGRAM, description=__doc__)
    if settings.in_this_process:
        rows = measure_size(settings.edges[0], settings.batch_sizes, settings.seconds)
        print(json.dumps([asdict(row) for row in rows]))
        return
    with errors_for_people(PROGRAM, debug=False):
        if min(settings.turns, settings.ranks) < 1:
            raise InputError("--turns and --ranks must be at least 1; raise them")
        if settings.against is None and not settings.busy_core and settings.ranks == 1:
            run_alone(settings)
        else:
            run_comparison(settings)


if __name__ == "__main__":
    main()
