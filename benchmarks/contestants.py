"""The two that `train_step` lets compete: the real trainer's parts, and the literal published algorithm.

Both learn from the middle of the training part on and score the validation part. They are asked for a few
steps at a time, so that they can take turns, and do nothing in between: each turn starts a pipeline of its
own, which plans the batches of the turn and no others. So ranks meet for at most as many batches at once as a
turn has steps.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.measuring import StopWatch
from reference.literal_training import (
    LiteralEvents,
    LiteralNeighbors,
    LiteralTraining,
)
from tpnet_dist.batches.event_batches import replay
from tpnet_dist.batches.link_batches import rows_ahead
from tpnet_dist.batches.links import PlannedLinks
from tpnet_dist.batches.negatives import Universe
from tpnet_dist.batches.planner import LinkPlanner
from tpnet_dist.batches.run_data import RunData, plan_of, split_of
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.world import World
from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.scoring import score_microbatches
from tpnet_dist.events.batch_plan import BatchPlan
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.view import EventView
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.memory.pipeline import MemoryRequest
from tpnet_dist.models.tpnet.config import TPNetConfig
from tpnet_dist.models.tpnet.published_names import PublishedSizes
from tpnet_dist.neighbors.sharded import ShardedNeighbors
from tpnet_dist.sizing.memory_sizes import memory_width
from tpnet_dist.training.run_model import RunModel

KEY = SampleKey(0, 0)


class Contestant(ABC):
    """What is timed. `learn` and `score` return the seconds of each step, the first with the start-up."""

    @abstractmethod
    def learn(self, steps: int) -> list[float]: ...

    @abstractmethod
    def begin_to_score(self) -> None:
        """Record the training part; not timed."""

    @abstractmethod
    def score(self, steps: int) -> list[float]: ...


@dataclass(frozen=True)
class StepTimes:
    """One rank's, step by step."""

    seconds: list[float]
    waits: list[float]
    """Seconds of each step spent waiting for rows."""
    all_reduces: list[float]
    """Seconds of each step's all-reduces that backward did not hide."""


class TurnBatches:
    """Batches of a view from some number on, which are planned turn by turn."""

    def __init__(
        self, data: RunData, planner: LinkPlanner, view: EventView, plan: BatchPlan, first: int
    ) -> None:
        self.data, self.planner, self.view, self.plan, self.next = data, planner, view, plan, first

    def take(self, steps: int) -> Iterator[MemoryRequest[PlannedLinks]]:
        """Yield the next requests: planning looks many batches ahead, so it is given a view that ends with
        them."""
        first, self.next = self.next, min(self.next + steps, len(self.plan))
        kept = slice(0, self.next + 1)
        position = int(self.plan.borders[first])
        return self.planner.requests(
            _first_events(self.view, int(self.plan.borders[self.next])),
            BatchPlan(self.plan.borders[kept], self.plan.recorded[kept]),
            from_batch=first,
            memory_time=self._time_before(position),
        )

    def __iter__(self) -> Iterator[MemoryRequest[PlannedLinks]]:
        """Yield all requests that are left."""
        return self.take(len(self.plan))

    def require(self, steps: int) -> None:
        """Refuse to time more steps than there are batches left."""
        if steps > (left := len(self.plan) - self.next):
            raise InputError(
                f"{steps} more steps are to be timed, but {left} batches of {len(self.plan)} are left; lower "
                "--steps or --turns, or take a larger log"
            )

    def _time_before(self, position: int) -> float:
        if position == 0 and self.view is self.data.split.val:
            return self.data.memory_time("val")
        return self.data.time_before(self.view, position)


def _first_events(view: EventView, count: int) -> EventView:
    if count == len(view):
        return view
    stop = int(view.read(count, count + 1).index[0])
    return EventView(view.log, view.start, stop, view.excluded_nodes, touching_nodes=view.touching_nodes)


class Trainer(Contestant):
    """The parts of `SeedTrainer` and `Scorer`."""

    def __init__(self, config: Config, world: World) -> None:
        # config
        self.config = config
        self._prefetch = config.memory.prefetch
        # parts
        self.data = data = RunData.open(config, world)
        self.parts = RunModel.build(config, data.log, world, 0, data.row_exchange)
        self._memory = self.parts.memory
        # progress
        self.to_learn = self._batches_to_learn()
        self.to_score: TurnBatches | None = None

    def learn(self, steps: int) -> list[float]:
        return self.learn_and_look(steps, self._prefetch).seconds

    def learn_and_look(self, steps: int, prefetch: int) -> StepTimes:
        """Learn some steps, and return their times and what they wait for."""
        self.to_learn.require(steps)
        requests = self.to_learn.take(steps)
        watch, waits, all_reduces = StopWatch(), StopWatch(), []
        rows = rows_ahead(self._memory, requests, prefetch=prefetch)
        for _ in range(steps):
            waits.start()
            batch = next(rows)
            waits.lap()
            num_events = self.config.training.batch_size
            self.parts.step([batch], num_batches=1, num_events=num_events)
            all_reduces.append(self.parts.step.engine.exposed_seconds())
            watch.lap()
        # let the pipeline's thread end
        assert next(rows, None) is None
        return StepTimes(watch.laps, waits.laps, all_reduces)

    def begin_to_score(self) -> None:
        if self._memory is not None:
            self._memory.reset(0)
            replay(self._memory, self.data.log, self.data.split.train, self.data.train_plan)
        val, everything = self.data.split.val, EventView(self.data.log, 0, len(self.data.log))
        planner = self._planner(self.data.all_neighbors, Universe(everything))
        plan = plan_of(val, self.config, self.config.evaluation.batch_size)
        self.to_score = TurnBatches(self.data, planner, val, plan, 0)
        self.parts.model.eval()

    def score(self, steps: int) -> list[float]:
        return self.score_and_look(steps, self._prefetch)

    @torch.inference_mode()
    def score_and_look(self, steps: int, prefetch: int) -> list[float]:
        assert self.to_score is not None, "begin to score first"
        requests = self.to_score.take(steps)
        watch = StopWatch()
        for planned, rows in rows_ahead(self._memory, requests, prefetch=prefetch):
            score_microbatches(self.parts.model, self.parts.batch_maker.microbatches(planned, rows))
            watch.lap()
        return watch.laps

    def _batches_to_learn(self) -> TurnBatches:
        train, plan = self.data.split.train, self.data.train_plan
        first = len(plan) // 2
        if self._memory is not None:
            replay(self._memory, self.data.log, train, plan, num_batches=first)
        planner = self._planner(self.data.train_neighbors, Universe(train))
        return TurnBatches(self.data, planner, train, plan, first)

    def _planner(self, neighbors: ShardedNeighbors, universe: Universe) -> LinkPlanner:
        negatives = universe.negatives(["random"], KEY)
        return self.data.planner(
            neighbors, negatives, key=KEY, padding_node=self.parts.padding_node, dropout=KEY
        )


class Published(Contestant):
    """`LiteralTraining` on the same events."""

    feature_width = 172
    """The width to which the released code pads features, also where there are none."""

    def __init__(self, config: Config, projection_ND: Tensor | None = None) -> None:
        """`projection_ND`: a row for each node and for the padding node; random if None."""
        self.log = log = EventLog(config.data.folder)
        split, model = split_of(log, config.data), config.model
        assert isinstance(model, TPNetConfig)
        self.batch_size = config.training.batch_size
        self.train, self.val = _events_of(log, split.train), _events_of(log, split.val)
        self.train_neighbors = LiteralNeighbors(log.num_nodes, self.train)
        self.all_neighbors = LiteralNeighbors(log.num_nodes, _events_of(log, EventView(log, 0, len(log))))
        if projection_ND is None:
            width = memory_width(config.memory, log)
            projection_ND = torch.randn(log.num_nodes + 1, width) / width**0.5
        self.literal = LiteralTraining(
            log.num_nodes,
            len(log),
            PublishedSizes(
                hops=config.memory.hops,
                neighbors=model.neighbors,
                node_width=self.feature_width,
                edge_width=self.feature_width,
                time_width=model.time_width,
                channels=model.channels,
                mixer_layers=model.mixer_layers,
                use_memory=True,
            ),
            projection_ND=projection_ND,
            decay=config.memory.rates[0],
            dropout=model.dropout,
            learning_rate=config.training.learning_rate,
        )
        self._random = np.random.default_rng(0)
        first = len(self.train) // self.batch_size // 2 * self.batch_size
        self._record(self.train[:first])
        self.to_learn, self.to_score = self._batches(self.train[first:]), self._batches(self.val)

    def learn(self, steps: int) -> list[float]:
        return self._timed(self.literal.learn, islice(self.to_learn, steps), self.train_neighbors)

    def begin_to_score(self) -> None:
        self.literal.forget()
        self._record(self.train)

    def score(self, steps: int) -> list[float]:
        return self._timed(self.literal.score, islice(self.to_score, steps), self.all_neighbors)

    def _timed(
        self, act: Callable[..., object], batches: Iterable[LiteralEvents], neighbors: LiteralNeighbors
    ) -> list[float]:
        """Return the seconds of each batch, against random destinations of training."""
        watch, destinations = StopWatch(), np.unique(self.train.dst_B)
        for batch in batches:
            negative_B = self._random.choice(destinations, len(batch))
            act(batch, negative_B, neighbors)
            watch.lap()
        return watch.laps

    def _batches(self, events: LiteralEvents) -> Iterator[LiteralEvents]:
        size = self.batch_size
        return (events[start : start + size] for start in range(0, len(events), size))

    def _record(self, events: LiteralEvents) -> None:
        for batch in self._batches(events):
            self.literal.record(batch)


def _events_of(log: EventLog, view: EventView) -> LiteralEvents:
    columns: Any = view.read(0, len(view)).columns
    seconds = columns.time.astype(np.float64) * log.manifest.seconds_per_tick
    return LiteralEvents(columns.src.astype(np.int64), columns.dst.astype(np.int64), seconds)
