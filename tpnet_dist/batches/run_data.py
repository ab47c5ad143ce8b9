"""The data of a run: log, split, batch plans, and who met whom before."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tpnet_dist.batches.lookup import LinkLookup
from tpnet_dist.batches.negatives import Negatives, Universe
from tpnet_dist.batches.planner import LinkPlanner
from tpnet_dist.config.schema import Config, DataConfig
from tpnet_dist.distributed.batch_slices import BatchSlices
from tpnet_dist.distributed.blocks import Blocks
from tpnet_dist.distributed.exchange import Exchange
from tpnet_dist.distributed.world import World
from tpnet_dist.events.batch_plan import BatchPlan, plan_by_events, plan_by_timestamps
from tpnet_dist.events.grown_features import FeatureRows
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.split import PartName, Split, split_log
from tpnet_dist.events.timescales import timescales_of
from tpnet_dist.events.view import EventView
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.models.registry import needs_of
from tpnet_dist.models.spec import weight_dtype
from tpnet_dist.neighbors.build import EventChunk, build_neighbor_index
from tpnet_dist.neighbors.index import NeighborIndex, NeighborLookup
from tpnet_dist.neighbors.samplers import WEIGHTED_SAMPLING
from tpnet_dist.neighbors.sharded import ShardedNeighbors


@dataclass(frozen=True)
class OpenedLog:
    """Holds a log, its split, and its training part in batches; all that uses the log shares them."""

    log: EventLog
    split: Split
    train_plan: BatchPlan

    @classmethod
    def read(cls, config: Config, log_id: str | None = None) -> "OpenedLog":
        """Open a log and read it a few times, but none of its features. `log_id`: as it was then."""
        log = EventLog(config.data.folder, log_id=log_id)
        split = split_of(log, config.data)
        return cls(log, split, plan_of(split.train, config, config.training.batch_size))


@dataclass(frozen=True)
class RunData(OpenedLog):
    """Adds the indices of who met whom, which are the same for all seeds of a run."""

    config: Config
    world: World
    train_neighbors: ShardedNeighbors
    """The index that training sees: training events alone."""
    all_neighbors: ShardedNeighbors
    """The index that evaluation sees: all events, of which look-ups return earlier ones."""
    row_exchange: Exchange
    """Carries rows of the memory, one seed's after the other's: an exchange for each seed would stay for
    good, with its threads and, under NCCL, its buffers."""
    borrowed_rows: int | None = None
    """The number of rows of other ranks each seed's memory keeps; None: as many as fit when it is made."""

    @classmethod
    def open(
        cls, config: Config, world: World, opened: OpenedLog | None = None, borrowed_rows: int | None = None
    ) -> "RunData":
        """Open the data of a run. `opened` is what has been read of the log already."""
        # look-ups are planned on the host
        lookups, rows = world.new_host_exchange(), new_row_exchange(config, world)

        def on_this_rank() -> "RunData":
            found = opened or OpenedLog.read(config)
            return cls(
                **vars(found),
                config=config,
                world=world,
                train_neighbors=_neighbors_in(config, found.split.train, world, lookups),
                all_neighbors=_neighbors_in(config, EventView(found.log, 0, len(found.log)), world, lookups),
                row_exchange=rows,
                borrowed_rows=borrowed_rows,
            )

        return world.on_every_rank(on_this_rank)

    def part(self, name: PartName) -> EventView:
        return self.split.val if name == "val" else self.split.test

    def universe(self, events: EventView, *, known: EventView | None = None) -> Universe:
        """Return a universe of these events; `data.batching` decides which edges count as seen earlier."""
        before_time_group = self.config.data.batching == "timestamps"
        return Universe(events, known=known, before_time_group=before_time_group)

    def planner(
        self,
        neighbors: ShardedNeighbors,
        negatives: Sequence[Negatives],
        *,
        key: SampleKey,
        padding_node: int | None,
        dropout: SampleKey | None = None,
    ) -> LinkPlanner:
        """Return a planner of this rank's links in a part of the log. Samplers draw by `key`, and a model
        that learns by `dropout`."""
        return planner_of(
            self.config,
            self.log,
            neighbors,
            negatives,
            slices=self.world.batch_slices(self.config.training.microbatches),
            key=key,
            padding_node=padding_node,
            dropout=dropout,
        )

    def time_before(self, view: EventView, position: int | None = None) -> float:
        """Return the time of the last event before a position, or the end, of the view; 0 without one."""
        position = len(view) if position is None else position
        last = view.read(max(0, position - 1), position)
        return float(self.log.seconds(last.columns.time)[0]) if len(last) else 0.0

    def memory_time(self, name: PartName) -> float:
        """Return the time of the last event that the memory holds when a part begins."""
        before = self.split.val if name == "test" and self.config.evaluation.update else self.split.train
        return self.time_before(before)


def new_row_exchange(config: Config, world: World) -> Exchange:
    """Return an exchange for rows, where these lie."""
    return world.new_host_exchange() if config.memory.rows_on == "host" else world.new_exchange()


def _neighbors_in(config: Config, view: EventView, world: World, lookups: Exchange) -> ShardedNeighbors:
    own = Blocks(view.log.num_nodes, world.num_ranks).range_of(world.rank)
    return ShardedNeighbors(index_of(config, view, *own), view.log.num_nodes, lookups)


def index_of(config: Config, view: EventView, first_node: int, stop_node: int) -> NeighborIndex:
    """Index the interactions of some nodes for the sampling that the model asks for."""
    index, needs = build_neighbor_index(lambda: chunks_of(view), first_node, stop_node), needs_of(config)
    if needs.sampling != WEIGHTED_SAMPLING:
        return index
    return index.weighted(needs.interval_scaling * view.log.manifest.seconds_per_tick)


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
    dropout: SampleKey | None = None,
) -> LinkPlanner:
    """Make a planner by the settings. `slices` says which part of each batch this rank asks about."""
    lookup = LinkLookup(
        log=log,
        neighbors=neighbors,
        needs=needs_of(config),
        sample_key=key,
        padding_node=padding_node,
        later_features=later_features,
        dropout=dropout,
        dtype=weight_dtype(config),
    )
    return LinkPlanner(slices=slices, negatives=negatives, lookup=lookup)


def split_of(log: EventLog, data: DataConfig) -> Split:
    return split_log(
        log,
        val_share=data.val_share,
        test_share=data.test_share,
        new_node_share=data.new_node_share,
        seed=data.split_seed,
        held_out=range(*(data.held_out or (0, 0))),
    )


def with_timescales(config: Config, log: EventLog) -> Config:
    """Return the settings with numbers instead of `memory.decay auto`, taken from the training events' times.
    Walks that have one timescale get the slower one."""
    if config.memory.decay != "auto" or not needs_of(config).rows:
        return config
    rates = timescales_of(split_of(log, config.data).train)
    return replace(config, memory=replace(config.memory, decay=rates[: config.memory.timescales]))


def plan_of(view: EventView, config: Config, batch_size: int) -> BatchPlan:
    if config.data.batching == "events":
        return plan_by_events(len(view), batch_size)
    return plan_by_timestamps(view.times(), batch_size)


def chunks_of(view: EventView) -> Iterator[EventChunk]:
    for chunk in view.stream():
        columns = chunk.columns
        yield EventChunk(columns.src, columns.dst, columns.time, chunk.index)
