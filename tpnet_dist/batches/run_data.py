"""The data of a run: log, split, batch plans, and who met whom before."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tpnet_dist.batches.negatives import Universe
from tpnet_dist.batches.planner import LinkPlanner, Negatives
from tpnet_dist.config.schema import Config, DataConfig
from tpnet_dist.distributed.batch_slices import BatchSlices
from tpnet_dist.distributed.blocks import Blocks
from tpnet_dist.distributed.exchange import Exchange
from tpnet_dist.distributed.world import World
from tpnet_dist.events.batch_plan import BatchPlan, plan_by_events, plan_by_timestamps
from tpnet_dist.events.grown_features import FeatureRows
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.split import Split, split_log
from tpnet_dist.events.view import EventView
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.models.registry import needs_of
from tpnet_dist.neighbors.build import EventChunk, build_neighbor_index
from tpnet_dist.neighbors.index import NeighborLookup
from tpnet_dist.neighbors.sharded import ShardedNeighbors

PartName = Literal["val", "test"]


@dataclass(frozen=True)
class OpenedLog:
    """A log, split, and its training part in batches: the same for all that is done with it."""

    log: EventLog
    split: Split
    train_plan: BatchPlan

    @classmethod
    def read(cls, config: Config) -> "OpenedLog":
        """Reads the log a few times, though no features of it."""
        log = EventLog(config.data.folder)
        split = split_of(log, config.data)
        return cls(log, split, plan_of(split.train, config, config.training.batch_size))


@dataclass(frozen=True)
class RunData(OpenedLog):
    """With who met whom; the same for all seeds of a run."""

    config: Config
    world: World
    train_neighbors: ShardedNeighbors
    """Training sees training events only."""
    all_neighbors: ShardedNeighbors
    """Evaluation sees all earlier events."""
    row_exchange: Exchange
    """Rows of the memory travel by it, one seed's after the other's: one for each would stay for good, with
    its threads and, under NCCL, its buffers."""
    borrowed_rows: int | None = None
    """How many rows of other ranks each seed's memory keeps; None: as many as fit when it is made."""

    @classmethod
    def open(
        cls, config: Config, world: World, opened: OpenedLog | None = None, borrowed_rows: int | None = None
    ) -> "RunData":
        """`opened`: what has been read of the log already."""
        # look-ups are planned on the host
        lookups, rows = world.new_host_exchange(), world.new_exchange()

        def on_this_rank() -> "RunData":
            found = opened or OpenedLog.read(config)
            return cls(
                **vars(found),
                config=config,
                world=world,
                train_neighbors=_neighbors_in(found.split.train, world, lookups),
                all_neighbors=_neighbors_in(EventView(found.log, 0, len(found.log)), world, lookups),
                row_exchange=rows,
                borrowed_rows=borrowed_rows,
            )

        return world.on_every_rank(on_this_rank)

    def part(self, name: PartName) -> EventView:
        return self.split.val if name == "val" else self.split.test

    def universe(self, events: EventView, *, known: EventView | None = None) -> Universe:
        """Negatives from these events; edges seen earlier are seen as `data.batching` has it."""
        before_moment = self.config.data.batching == "timestamps"
        return Universe(events, known=known, before_moment=before_moment)

    def planner(
        self,
        neighbors: ShardedNeighbors,
        negatives: Sequence[Negatives],
        *,
        key: SampleKey,
        padding_node: int | None,
    ) -> LinkPlanner:
        """How this rank asks about a part of the log. `key`: what uniform sampling draws by."""
        slices = self.world.batch_slices(self.config.training.microbatches)
        return planner_of(
            self.config, self.log, neighbors, negatives, slices=slices, key=key, padding_node=padding_node
        )

    def time_before(self, view: EventView, position: int | None = None) -> float:
        """Of the last event before a position of the view, or before its end; 0 if there is none."""
        position = len(view) if position is None else position
        last = view.read(max(0, position - 1), position)
        return float(self.log.seconds(last.columns.time)[0]) if len(last) else 0.0

    def memory_time(self, name: PartName) -> float:
        """Of the last event the memory holds when a part begins."""
        before = self.split.val if name == "test" and self.config.evaluation.update else self.split.train
        return self.time_before(before)


def _neighbors_in(view: EventView, world: World, lookups: Exchange) -> ShardedNeighbors:
    own = Blocks(view.log.num_nodes, world.num_ranks).range_of(world.rank)
    return ShardedNeighbors(build_neighbor_index(lambda: chunks_of(view), *own), view.log.num_nodes, lookups)


def planner_of(
    config: Config,
    log: EventLog,
    neighbors: NeighborLookup,
    negatives: Sequence[Negatives],
    *,
    slices: BatchSlices,
    key: SampleKey,
    padding_node: int | None,
    later_features: FeatureRows | None = None,
) -> LinkPlanner:
    """The planner that the settings ask for. `slices`: which part of each batch this rank plans."""
    return LinkPlanner(
        log=log,
        slices=slices,
        neighbors=neighbors,
        needs=needs_of(config),
        sample_key=key,
        negatives=negatives,
        padding_node=padding_node,
        later_features=later_features,
    )


def split_of(log: EventLog, data: DataConfig) -> Split:
    return split_log(
        log,
        val_share=data.val_share,
        test_share=data.test_share,
        new_node_share=data.new_node_share,
        seed=data.split_seed,
    )


def plan_of(view: EventView, config: Config, batch_size: int) -> BatchPlan:
    if config.data.batching == "events":
        return plan_by_events(len(view), batch_size)
    return plan_by_timestamps(view.times(), batch_size)


def chunks_of(view: EventView) -> Iterator[EventChunk]:
    for chunk in view.stream():
        columns = chunk.columns
        yield EventChunk(columns.src, columns.dst, columns.time, chunk.index)
