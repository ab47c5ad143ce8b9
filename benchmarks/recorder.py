"""Records random events for as long as it is told, in a process of its own: one side of a comparison.

    python -m benchmarks.recorder NODES WIDTH BATCH_SIZE

One rank, one thread. Each line that comes in is a number of seconds; it records for so long, batches that
nobody reads, and answers with one JSON line: how many events, in how many seconds, and in how many of the
processor's. `first_edition` does the same with the memory as it was before, so `propagation_against` can let
both take turns.
"""

import json
import sys
import time
from collections.abc import Iterator

import numpy as np
import torch

from tpnet_dist.distributed.host_memory import keep_large_buffers
from tpnet_dist.memory.event_run import EventRun
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.walks import Walk

HOPS = 3
DECAY = 1e-6
RUN_BATCHES = 128
"""The most batches that a memory records at once where nobody reads them."""
WARM_UP_RUNS = 12
"""The memory takes twice as many batches at once each time, until it takes all."""


def random_runs(nodes: int, batch_size: int, batches: int = RUN_BATCHES) -> Iterator[EventRun]:
    """Yield runs of uniform pairs, one event per second, for ever."""
    draw, first, count = np.random.default_rng(0), 0, batches * batch_size
    border = np.arange(0, count + 1, batch_size)
    while True:
        src, dst = draw.integers(0, nodes, (2, count))
        yield EventRun.from_columns(src, dst, np.arange(first, first + count, dtype=np.float64), border)
        first += count


def new_memory(nodes: int, width: int) -> Memory:
    """Make a memory whose buffers are kept as in a training process."""
    keep_large_buffers()
    torch.set_num_threads(1)
    return Memory(nodes, Walk("decay", HOPS, DECAY), width)


def record_for(memory: Memory, runs: Iterator[EventRun], seconds: float) -> dict[str, float]:
    """Record runs for some seconds, at least one; return what recording took, without making the events."""
    took = {"events": 0.0, "seconds": 0.0, "cpu_seconds": 0.0}
    while not took["events"] or took["seconds"] < seconds:
        run = next(runs)
        started, cpu_started = time.perf_counter(), time.process_time()
        memory.catch_up([run], run.num_events)
        took["seconds"] += time.perf_counter() - started
        took["cpu_seconds"] += time.process_time() - cpu_started
        took["events"] += run.num_events
    return took


def main() -> None:
    nodes, width, batch_size = map(int, sys.argv[1:])
    memory, runs = new_memory(nodes, width), random_runs(nodes, batch_size)
    for _ in range(WARM_UP_RUNS):
        record_for(memory, runs, 0.0)
    for line in sys.stdin:
        print(json.dumps(record_for(memory, runs, float(line))), flush=True)


if __name__ == "__main__":
    main()
