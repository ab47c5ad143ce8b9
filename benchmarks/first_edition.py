"""Records random events with the memory's first edition, for whoever compares it with today's.

    PYTHONPATH=WORKTREE python -P benchmarks/first_edition.py NODES WIDTH BATCH_SIZE

WORKTREE holds a commit up to 30406be, whose API this alone uses. One rank, one thread; talks as `recorder`
does, and records as that edition's pipeline did: plan 32 batches, then of each fetch the rows of both ends
without their self-products, and record. Modules are imported by name, since today's tree has none of them.
"""

import json
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import torch

Foreign = Any
"""An object of the other edition, which today's types do not know."""
HOPS = 3
DECAY = 1e-6
WARM_UP_RUNS = 4


def random_batches(nodes: int, batch_size: int) -> Iterator[Foreign]:
    """Yield uniform pairs, one event per second, for ever."""
    batch_events = import_module("tpnet_dist.memory.plan").BatchEvents
    generator, first = torch.Generator().manual_seed(0), 0
    while True:
        ends = torch.randint(0, nodes, (2, batch_size), generator=generator)
        yield batch_events(ends[0], ends[1], torch.arange(first, first + batch_size, dtype=torch.float64))
        first += batch_size


def record_run(memory: Foreign, run: list[Foreign]) -> None:
    for plan in memory.plan_run(run):
        memory.record(plan, memory.fetch(plan, products=False))


def record_for(memory: Foreign, batches: Iterator[Foreign], seconds: float) -> dict[str, float]:
    """Record runs for some seconds, at least one; return what recording took, without making the events."""
    run_batches = import_module("tpnet_dist.memory.pipeline").BATCHES_PER_PLAN
    took = {"events": 0.0, "seconds": 0.0, "cpu_seconds": 0.0}
    while not took["events"] or took["seconds"] < seconds:
        run = [next(batches) for _ in range(run_batches)]
        started, cpu_started = time.perf_counter(), time.process_time()
        record_run(memory, run)
        took["seconds"] += time.perf_counter() - started
        took["cpu_seconds"] += time.process_time() - cpu_started
        took["events"] += sum(map(len, run))
    return took


def main() -> None:
    nodes, width, batch_size = map(int, sys.argv[1:])
    import_module("tpnet_dist.distributed.host_memory").keep_large_buffers()
    torch.set_num_threads(1)
    walk = import_module("tpnet_dist.memory.walks").Walk("decay", HOPS, DECAY)
    memory = import_module("tpnet_dist.memory.memory").Memory(nodes, walk, width)
    batches = random_batches(nodes, batch_size)
    for _ in range(WARM_UP_RUNS):
        record_for(memory, batches, 0.0)
    for line in sys.stdin:
        print(json.dumps(record_for(memory, batches, float(line))), flush=True)


if __name__ == "__main__":
    main()
