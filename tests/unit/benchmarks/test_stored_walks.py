"""Stored walk matrices are what the memory's rows are projections of."""

import numpy as np
import pytest
import torch

from benchmarks.stored_walks import StoredWalks
from tests.support.memories import record
from tpnet_dist.memory.event_run import BatchEvents
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.walks import Walk

NODES, HOPS, DECAY = 12, 3, 0.05


def batches(seed: int, count: int, size: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(seed)
    time = np.sort(generator.uniform(0, 60, count * size))
    ends = generator.integers(0, NODES, (2, count * size)).astype(np.int32)
    return [
        (ends[0, first : first + size], ends[1, first : first + size], time[first : first + size])
        for first in range(0, count * size, size)
    ]


@pytest.mark.parametrize("size", [1, 7])
def test_they_are_the_rows_of_a_memory_that_projects_nothing(size: int) -> None:
    """Self-loops and repeated pairs are among the events."""
    stored = StoredWalks(NODES, HOPS, DECAY)
    memory = Memory(NODES, Walk("decay", HOPS, DECAY), NODES, projection="identity", dtype=torch.float64)
    for src, dst, time in batches(seed=3, count=6, size=size):
        stored.record(src, dst, time)
        record(memory, BatchEvents(torch.tensor(src).long(), torch.tensor(dst).long(), torch.tensor(time)))
    everybody, now = torch.arange(NODES), 70.0
    rows_NLD = memory.look(everybody).read(everybody, torch.full((NODES,), now, dtype=torch.float64))
    for hop in range(HOPS + 1):
        matrix = stored.read(everybody.numpy(), hop, now).toarray()
        np.testing.assert_allclose(matrix, rows_NLD[:, hop].numpy(), rtol=1e-5, atol=1e-7)
