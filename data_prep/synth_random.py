"""The scalability graph of the TPNet paper: uniform random pairs, one event per second."""

from collections.abc import Iterator

import numpy as np

from tpnet_dist.events import EventColumns

EVENTS_PER_CHUNK = 1_000_000
AVERAGE_DEGREE = 100.0
TIE_PROBABILITY = 0.5
"""Chance that an event has the time of the one before; it makes the mean gap one second."""


def random_events(*, events: int, nodes: int, seed: int, first_time: int = 0) -> Iterator[EventColumns]:
    """Yield the log in chunks, each drawn from (seed, chunk), in memory that does not grow with the log."""
    time = first_time
    for chunk, start in enumerate(range(0, events, EVENTS_PER_CHUNK)):
        columns = _draw_chunk(chunk, min(EVENTS_PER_CHUNK, events - start), nodes, seed, time)
        time = int(columns.time[-1])
        yield columns


def _draw_chunk(chunk: int, size: int, nodes: int, seed: int, time: int) -> EventColumns:
    rng = np.random.default_rng((seed, chunk))
    src = rng.integers(nodes, size=size, dtype=np.int32)
    # a step around the circle of nodes that never comes home: uniform over all but src
    dst = (src + rng.integers(1, nodes, size=size)) % nodes
    gaps = rng.geometric(TIE_PROBABILITY, size=size) - 1
    return EventColumns(src, dst.astype(np.int32), time + np.cumsum(gaps), np.zeros(size, np.float32))
