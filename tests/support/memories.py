"""Small memories and what is done with them, for tests."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from reference.oracle import Event
from tests.reference.test_oracle import HOPS, columns
from tpnet_dist.memory.event_run import BatchEvents
from tpnet_dist.memory.fetched_rows import FetchedRows
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.walks import Walk, WalkKind

WALKS: tuple[WalkKind, ...] = ("decay", "count", "transition")
YEAR = 365 * 86400.0


def batch(*events: Event) -> BatchEvents:
    return BatchEvents(*columns(list(events)))


def batches_from(events: list[Event], size: int) -> list[BatchEvents]:
    return [batch(*events[start : start + size]) for start in range(0, len(events), size)]


def random_events(num_nodes: int, count: int, until: float, seed: int = 0) -> list[Event]:
    draw = np.random.default_rng(seed)
    ids, times = draw.integers(0, num_nodes, (count, 2)).tolist(), np.sort(draw.uniform(0, until, count))
    return [(src, dst, float(time)) for (src, dst), time in zip(ids, times, strict=True)]


def record(memory: Memory, *batches: BatchEvents) -> Memory:
    for one in batches:
        record_run(memory, [one])
    return memory


def record_run(memory: Memory, batches: Sequence[BatchEvents]) -> None:
    plan = memory.plan(batches)
    memory.runs.borrow(plan)
    memory.record(plan)


def fetch_all(memory: Memory) -> FetchedRows:
    return memory.look(torch.arange(memory.num_nodes))


def read_all(memory: Memory, time: float) -> Tensor:
    times_N = torch.full((memory.num_nodes,), time, dtype=torch.float64)
    return fetch_all(memory).read(torch.arange(memory.num_nodes), times_N)


def explicit_memory(num_nodes: int, kind: WalkKind, decay: float | tuple[float, ...]) -> Memory:
    """P = I in float64, so that the rows are the walk matrices."""
    return Memory(num_nodes, Walk(kind, HOPS, decay), num_nodes, projection="identity", dtype=torch.float64)


def state_of(memory: Memory) -> dict[str, Tensor]:
    """This rank's block, not a copy; blocks follow one another in the order of ranks."""
    memory.assert_all_recorded()
    clock, *degree = memory.table.own_clocks()
    return {"rows": memory.table.rows_NLD, "clock": clock, "degree": degree[0] if degree else clock[:0]}


def copy_of_state(memory: Memory) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in state_of(memory).items()}


def assert_state(memory: Memory, wanted: dict[str, Tensor]) -> None:
    """To the bit."""
    found = state_of(memory)
    assert found.keys() == wanted.keys()
    assert [name for name, tensor in wanted.items() if not torch.equal(tensor, found[name])] == []
