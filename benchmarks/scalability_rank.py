"""One case of the scalability study, on every rank: the whole log through the memory, then steps at its end.

    torchrun --nproc_per_node=2 -m benchmarks.scalability_rank LOG --out case.json

    neighbours   build the index of this rank's nodes
    rows         draw the projections they start from
    propagation  record every event, read from the Parquet shards, but those of the steps: by columns where
                 that costs several ranks less, as when a run goes on
    training     learn from the next batches, which are recorded too
    scoring      score the last ones

What each rank took goes to one JSON file. On GPUs where torch sees any, else on the host.
"""

import itertools
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
import tyro
from tyro.conf import Positional

from benchmarks.measuring import StopWatch, peak_bytes, release_free_memory, resident_bytes
from tpnet_dist.batches.event_batches import replay
from tpnet_dist.batches.link_batches import rows_ahead
from tpnet_dist.batches.negatives import Universe
from tpnet_dist.batches.planner import LinkPlanner
from tpnet_dist.batches.run_data import chunks_of, plan_of, planner_of
from tpnet_dist.config.schema import Config, DataConfig
from tpnet_dist.distributed.blocks import Blocks
from tpnet_dist.distributed.exchange_stats import ExchangeStats
from tpnet_dist.distributed.host_memory import keep_large_buffers
from tpnet_dist.distributed.rank_command import end_rank
from tpnet_dist.distributed.world import World, join_world
from tpnet_dist.evaluation.scoring import score_microbatches
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.view import EventView
from tpnet_dist.files.atomic_write import atomic_write
from tpnet_dist.files.progress import Display, display_for
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.models.registry import spec_of
from tpnet_dist.neighbors.build import build_neighbor_index
from tpnet_dist.neighbors.sharded import ShardedNeighbors
from tpnet_dist.training.run_model import RunModel, build_engine

KEY = SampleKey(0, 0)
WARM_UP_STEPS = 2
COUNTED = (
    "bytes_sent",
    "bytes_received",
    "rows_needed",
    "rows_borrowed",
    "ends_replayed",
    "collectives",
    "batches",
    "runs",
)
"""The fields of the exchange's stats that are kept for each phase."""


@dataclass(kw_only=True)
class Settings:
    """The log to stream, and the number of steps to time."""

    log: Positional[Path]
    out: Path
    steps: int = 10
    """The number of counted training steps, and of scoring; two more come before each."""


@dataclass
class RankCase:
    """What one rank took for a case."""

    rank: int
    device: str
    """The device, cpu or cuda."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds of each phase."""
    exchanged: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Bytes, rows and collectives of each phase."""
    peak_bytes: dict[str, int] = field(default_factory=dict)
    """Largest resident set until the end of each phase; `start` is before there is anything."""
    device_peak_bytes: int = 0
    rows_bytes: int = 0
    """The bytes of the table, by its shape."""
    resident_bytes: dict[str, int] = field(default_factory=dict)
    """The process's resident bytes at the end of each phase: rows take what it grew by since `neighbours`."""
    layout: Literal["columns", "nodes"] = "nodes"
    """How events that nobody reads were recorded."""
    borrowed_rows: int = 0
    """Copies of other ranks' rows that it had room for."""
    borrowed_rows_held: int = 0
    """Copies of other ranks' rows that it held in the end."""
    neighbor_bytes: int = 0
    training_steps: list[float] = field(default_factory=list)
    scoring_steps: list[float] = field(default_factory=list)


class Case:
    """One log on one number of ranks."""

    def __init__(self, settings: Settings, world: World, display: Display) -> None:
        # config
        self.config = Config(data=DataConfig(folder=str(settings.log)))
        self.steps, self.world, self.display = settings.steps + WARM_UP_STEPS, world, display
        # parts
        self.log = EventLog(settings.log)
        self.everything = EventView(self.log, 0, len(self.log))
        self.plan = plan_of(self.everything, self.config, self.config.training.batch_size)
        self.took = RankCase(world.rank, world.device.type)
        self.took.peak_bytes["start"] = peak_bytes()

    def measure(self) -> RankCase:
        self._load_libraries()
        with self._phase("neighbours", None):
            neighbors = self._neighbors()
        with self._phase("rows", None):
            parts = RunModel.build(self.config, self.log, self.world, seed=0)
        memory = parts.memory
        assert memory is not None
        first_step = len(self.plan) - 2 * self.steps
        num_events = int(self.plan.borders[first_step])
        with self._phase("propagation", parts.stats), self.display.stage("recording", num_events):
            replay(memory, self.log, self.everything, self.plan, first_step, progress=self.display.advance)
        planner = self._planner(neighbors, parts)
        with self._phase("training", parts.stats):
            self.took.training_steps = self._learn(planner, parts, first_step)
        with self._phase("scoring", parts.stats):
            self.took.scoring_steps = self._score(planner, parts, first_step + self.steps)
        self.took.rows_bytes, self.took.neighbor_bytes = memory.table.rows_NLD.nbytes, neighbors.index.bytes()
        self.took.layout = "columns" if "columns" in parts.stats.seconds else "nodes"
        self.took.borrowed_rows = memory.borrowed.capacity
        self.took.borrowed_rows_held = memory.borrowed.num_held
        if self.world.device.type == "cuda":
            self.took.device_peak_bytes = torch.cuda.max_memory_allocated(self.world.device)
        return self.took

    def _load_libraries(self) -> None:
        """Load the libraries that an engine brings along, tens of MB, so that they are not counted as
        rows."""
        build_engine(
            self.config,
            spec_of(self.config).make(self.config, self.log.shape).to(self.world.device),
            self.world,
        )

    @contextmanager
    def _phase(self, name: str, stats: ExchangeStats | None) -> Iterator[None]:
        self.world.wait_for_all()
        before = None if stats is None else replace(stats, seconds=dict(stats.seconds))
        started = time.perf_counter()
        yield
        self._wait_for_device()
        self.world.wait_for_all()
        self.took.seconds[name] = time.perf_counter() - started
        self.took.peak_bytes[name] = peak_bytes()
        release_free_memory()
        self.took.resident_bytes[name] = resident_bytes()
        if stats is not None and before is not None:
            self.took.exchanged[name] = {
                count: getattr(stats, count) - getattr(before, count) for count in COUNTED
            }

    def _wait_for_device(self) -> None:
        """Let the device finish what it was asked for, so that the time is counted now."""
        if self.world.device.type == "cuda":
            torch.cuda.synchronize(self.world.device)

    def _neighbors(self) -> ShardedNeighbors:
        exchange = self.world.new_host_exchange()
        own = Blocks(self.log.num_nodes, self.world.num_ranks).range_of(self.world.rank)
        index = build_neighbor_index(lambda: chunks_of(self.everything), *own)
        return ShardedNeighbors(index, self.log.num_nodes, exchange)

    def _planner(self, neighbors: ShardedNeighbors, parts: RunModel) -> LinkPlanner:
        return planner_of(
            self.config,
            self.log,
            neighbors,
            [Universe(self.everything).random(KEY)],
            slices=self.world.batch_slices(self.config.training.microbatches),
            key=KEY,
            padding_node=parts.padding_node,
            dropout=KEY,
        )

    def _learn(self, planner: LinkPlanner, parts: RunModel, first: int) -> list[float]:
        watch = StopWatch()
        for batch in self._batches(planner, parts, first):
            parts.step([batch], num_batches=1, num_events=self.config.training.batch_size)
            self._wait_for_device()
            watch.lap()
        return watch.laps[WARM_UP_STEPS:]

    @torch.inference_mode()
    def _score(self, planner: LinkPlanner, parts: RunModel, first: int) -> list[float]:
        parts.model.eval()
        watch = StopWatch()
        for planned, rows in self._batches(planner, parts, first):
            score_microbatches(parts.model, parts.batch_maker.microbatches(planned, rows))
            self._wait_for_device()
            watch.lap()
        return watch.laps[WARM_UP_STEPS:]

    def _batches(self, planner: LinkPlanner, parts: RunModel, first: int) -> Iterator[Any]:
        position = int(self.plan.borders[first])
        before = self.everything.read(position - 1, position).columns.time
        requests = planner.requests(
            self.everything,
            self.plan,
            from_batch=first,
            memory_time=float(self.log.seconds(before)[0]),
        )
        some = itertools.islice(requests, self.steps)
        return rows_ahead(parts.memory, some, prefetch=self.config.memory.prefetch)


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    keep_large_buffers()
    with join_world() as world:
        took = Case(settings, world, display_for(world.rank)).measure()
        everybody = world.gather_objects(asdict(took))
        if world.rank == 0:
            with atomic_write(settings.out) as file:
                file.write(json.dumps(everybody).encode())
    end_rank()


if __name__ == "__main__":
    main()
