"""How fast the neighbour index is built and asked, and what it weighs.

    python -m benchmarks.neighbors [--events 1e7] [--nodes 2e5] [--skew 1] [--threads 1]

One thread unless told otherwise, as lookups are planned beside a model that has the other cores. With another
process on one of two cores, two threads took up to 136 ms for a batch that one answers in 4.
"""

import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import Quantiles, repeated_seconds, seconds_of
from benchmarks.results_line import print_results_line
from tpnet_dist.config.whole_numbers import Count
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.neighbors.build import EventChunk, build_neighbor_index
from tpnet_dist.neighbors.index import NeighborIndex
from tpnet_dist.neighbors.samplers import SAMPLERS, Queries

TEN_YEARS = 10 * 365 * 86_400
CHUNK_EVENTS = 100_000
COUNT = 20
QUERIES = {"200 events × 3": 600, "2,000 events × 3": 6_000}
WARM_UP, REPEATS = 5, 100


@dataclass(kw_only=True)
class Settings:
    """The size and skew of the graph, and the number of threads."""

    events: Count = 10_000_000
    nodes: Count = 200_000
    skew: float = 1.0
    """The skew of the nodes' events; 1: all nodes alike; 3: few have most events."""
    threads: int = 1
    """The number of torch's threads during look-ups."""


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    torch.set_num_threads(settings.threads)
    chunks = random_log(settings.events, settings.nodes, settings.skew)
    index, result = measure_build(chunks, settings.nodes, settings.events)
    result["lookups"] = [
        measure_lookups(index, kind, label) for label in QUERIES for kind in ("recent", "uniform")
    ]
    show(result)
    setting = asdict(settings) | {
        "count": COUNT,
        "chunk_events": CHUNK_EVENTS,
        "max_degree": index.max_degree,
    }
    print_results_line("neighbors", setting | result)


def random_log(events: int, nodes: int, skew: float) -> Callable[[], Iterator[EventChunk]]:
    generator = np.random.default_rng(0)
    src, dst = ((nodes * generator.random(events) ** skew).astype(np.int32) for _ in range(2))
    times = np.sort(generator.integers(0, TEN_YEARS, events)) + 1_200_000_000
    index = np.arange(events)

    def chunks() -> Iterator[EventChunk]:
        for start in range(0, events, CHUNK_EVENTS):
            rows = slice(start, start + CHUNK_EVENTS)
            yield EventChunk(src[rows], dst[rows], times[rows], index[rows])

    return chunks


def measure_build(
    chunks: Callable[[], Iterator[EventChunk]], nodes: int, events: int
) -> tuple[NeighborIndex, dict[str, Any]]:
    """Build the index once for the clock and once for the memory, since tracing costs time."""
    seconds = seconds_of(lambda: build_neighbor_index(chunks, 0, nodes))
    tracemalloc.start()
    index = build_neighbor_index(chunks, 0, nodes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return index, {
        "build_events_per_second": events / seconds,
        "bytes_per_entry": index.bytes() / index.num_entries,
        "index_bytes": index.bytes(),
        "extra_peak_bytes": peak - index.bytes(),
    }


def measure_lookups(index: NeighborIndex, kind: str, label: str) -> dict[str, Any]:
    """Time look-ups, with fresh queries every time, so that no answer lies in a cache already."""
    generator = torch.Generator().manual_seed(1)
    size, key = QUERIES[label], SampleKey(seed=0, epoch=0)
    number_B = torch.arange(size)

    def lookups() -> Iterator[Callable[[], object]]:
        for _ in range(WARM_UP + REPEATS):
            node_B = torch.randint(index.stop_node, (size,), generator=generator)
            before_B = torch.randint(index.end_event, (size,), generator=generator)
            queries = Queries(node_B, before_B, number_B)
            yield partial(index.sample, queries, SAMPLERS[kind], count=COUNT, key=key)

    taken = Quantiles.of(repeated_seconds(lookups(), warm_up=WARM_UP))
    return {
        "kind": kind,
        "batch": label,
        "p50_ms": 1e3 * taken.p50,
        "p90_ms": 1e3 * taken.p90,
        "nodes_per_second": size / taken.p50,
    }


def show(result: dict[str, Any]) -> None:
    console = Console()
    built = Table("build, events/s", "bytes per entry", "index, MB", "extra while building, MB")
    built.add_row(
        f"{result['build_events_per_second']:,.0f}",
        f"{result['bytes_per_entry']:.2f}",
        f"{result['index_bytes'] / 1e6:,.1f}",
        f"{result['extra_peak_bytes'] / 1e6:,.1f}",
    )
    asked = Table(f"lookup of {COUNT}", "batch", "P50, ms", "P90, ms", "nodes/s at P50")
    for row in result["lookups"]:
        speeds = (f"{row['p50_ms']:.2f}", f"{row['p90_ms']:.2f}", f"{row['nodes_per_second']:,.0f}")
        asked.add_row(row["kind"], row["batch"], *speeds)
    console.print(built, asked)


if __name__ == "__main__":
    main()
