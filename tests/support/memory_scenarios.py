"""What to record in a memory, alone or on ranks, and what each rank saw of it."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import torch
from torch import Tensor

from tests.support.memories import state_of
from tpnet_dist.distributed.blocks import even_borders
from tpnet_dist.distributed.exchange import Exchange
from tpnet_dist.distributed.world import World
from tpnet_dist.memory.event_run import BatchEvents, EventRun
from tpnet_dist.memory.memory import CatchUp, Memory
from tpnet_dist.memory.run_plan import RunPlan
from tpnet_dist.memory.walks import Walk

DECAY = Walk("decay", hops=3, decay=1e-3)

Run = list[tuple[BatchEvents, Tensor]]
"""Batches, each with what a rank reads before it."""


@dataclass(frozen=True)
class Scenario:
    """What to record, and in which memory."""

    num_nodes: int
    batches: list[BatchEvents]
    needed: list[Tensor] = field(default_factory=list)
    """Further nodes by batch; of these each rank wants every num_ranks-th."""
    walk: Walk = DECAY
    width: int = 7
    dtype: torch.dtype = torch.float32
    exchange_dtype: torch.dtype | None = None
    borrowed_rows: int = 0
    run_batches: int | None = None
    catch_up: CatchUp = "auto"
    planned: Literal["one ahead", "one by one", "all first"] = "one ahead"
    """When runs are planned: as the pipeline does, so that rows for one travel while another is recorded;
    each when the one before is recorded; or every run before the first row is borrowed."""

    def memory(self, exchange: Exchange) -> Memory:
        return Memory(
            self.num_nodes,
            self.walk,
            self.width,
            seed=5,
            exchange=exchange,
            dtype=self.dtype,
            exchange_dtype=self.exchange_dtype,
            borrowed_rows=self.borrowed_rows,
            run_batches=self.run_batches,
            catch_up=self.catch_up,
        )


@dataclass(frozen=True)
class Replayed:
    """What one rank saw and ended with."""

    state: dict[str, Tensor]
    nodes_of_batch: list[Tensor]
    rows_of_batch: list[Tensor]
    """Read at the time of the batch's last event."""
    products_of_batch: list[Tensor]
    stats: dict[str, Any]

    def tensors(self) -> list[Tensor]:
        return [*self.state.values(), *self.nodes_of_batch, *self.rows_of_batch, *self.products_of_batch]


def replay(exchange: Exchange, scenario: Scenario) -> Replayed:
    memory = scenario.memory(exchange)
    nodes, rows, products, now = [], [], [], 0.0
    for run, plan in carried_out(memory, scenario):
        for number, (batch, _) in enumerate(run):
            fetched = memory.read(plan, number)
            memory.record(plan, range(number, number + 1))
            now = float(batch.time_B[-1]) if len(batch) else now
            time_U = torch.full(fetched.nodes_U.shape, now, dtype=torch.float64)
            nodes.append(fetched.nodes_U)
            rows.append(fetched.read(fetched.nodes_U, time_U))
            products.append(fetched.products_ULL)
    stats = {key: value for key, value in exchange.stats.to_json().items() if key != "seconds"}
    return Replayed(state_of(memory), nodes, rows, products, stats)


def carried_out(memory: Memory, scenario: Scenario) -> Iterator[tuple[Run, RunPlan]]:
    """Each run with its plan, when its rows are here."""
    runs: deque[Run] = deque()

    def plans() -> Iterator[RunPlan]:
        for run in runs_of(memory, scenario):
            runs.append(run)
            yield memory.plan(*zip(*run, strict=True))

    if scenario.planned == "one by one":
        for plan in plans():
            memory.runs.borrow(plan)
            yield runs.popleft(), plan
        return
    for plan in memory.runs.in_turn(plans() if scenario.planned == "one ahead" else iter(list(plans()))):
        yield runs.popleft(), plan


def runs_of(memory: Memory, scenario: Scenario) -> Iterator[Run]:
    """Runs of batches, each with what this rank reads: the ends of its slice, and its share of others."""
    inputs = iter(enumerate(scenario.batches))
    while run := list(islice(inputs, memory.runs.length.batches())):
        yield [(batch, reads_of(memory.exchange, scenario, number)) for number, batch in run]


def reads_of(exchange: Exchange, scenario: Scenario, number: int) -> Tensor:
    batch, (rank, num_ranks) = scenario.batches[number], (exchange.rank, exchange.num_ranks)
    here = slice(*even_borders(len(batch), num_ranks)[rank : rank + 2])
    further = (
        scenario.needed[number][rank::num_ranks] if scenario.needed else torch.empty(0, dtype=torch.int64)
    )
    return torch.cat([batch.src_B[here], batch.dst_B[here], further])


def replay_on_rank(world: World, scenario: Scenario) -> Replayed:
    return replay(world.new_exchange(), scenario)


def replay_each_on_rank(world: World, scenarios: list[Scenario]) -> list[Replayed]:
    exchange = world.new_exchange()
    return [replay(exchange, scenario) for scenario in scenarios]


def catch_up_on_rank(world: World, scenarios: list[Scenario]) -> list[list[Tensor]]:
    """What this rank has after each, when nobody reads what is recorded."""
    exchange, found = world.new_exchange(), []
    for scenario in scenarios:
        memory, run = scenario.memory(exchange), EventRun.of(scenario.batches)
        memory.catch_up([run.batches(0, 2), run.batches(2, run.num_batches)], run.num_events)
        found.append(list(state_of(memory).values()))
    return found


def random_batches(num_nodes: int, sizes: Iterable[int], hub: int | None = None) -> list[BatchEvents]:
    """Times with ties within and across batches, and longer gaps now and then; self-loops happen."""
    draw, time, batches = torch.Generator().manual_seed(num_nodes), 0.0, []
    for size in sizes:
        ids = torch.randint(0, num_nodes, (2, size), generator=draw)
        gaps = torch.tensor([0.0, 0.0, 1.0, 30.5, 700.0], dtype=torch.float64)
        times = time + gaps[torch.randint(0, 5, (size,), generator=draw)].cumsum(0)
        if hub is not None:
            ids[torch.randint(0, 2, (size,), generator=draw), torch.arange(size)] = hub
        batches.append(BatchEvents(ids[0], ids[1], times))
        time = float(times[-1]) if size else time
    return batches


def random_needs(num_nodes: int, sizes: Iterable[int]) -> list[Tensor]:
    draw = torch.Generator().manual_seed(1)
    return [torch.randint(0, num_nodes, (size,), generator=draw) for size in sizes]
