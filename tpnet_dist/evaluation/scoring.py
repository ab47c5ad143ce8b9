"""Score a part of the log with the model as it is, on all ranks; every rank gets all scores."""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from tpnet_dist.batches.link_batches import Microbatch, rows_ahead
from tpnet_dist.batches.negatives import Negatives
from tpnet_dist.batches.run_data import RunData
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.batch_slices import BatchSlices
from tpnet_dist.distributed.gather import gather_varied
from tpnet_dist.distributed.stop_request import StopRequested
from tpnet_dist.evaluation.model_parts import ModelParts
from tpnet_dist.evaluation.results import EventsPerSecond
from tpnet_dist.evaluation.tables import Scores
from tpnet_dist.events.batch_plan import BatchPlan, Positions
from tpnet_dist.events.view import EventView
from tpnet_dist.files.progress import Display
from tpnet_dist.keyed_random import SampleKey

EVALUATION_KEY = SampleKey(0, 0)
"""Evaluation draws the same negatives in every epoch and for every seed, so that figures compare."""
LINKS_PER_PIECE = 2000
PIECES_PER_LOOK = 10
"""The number of pieces after which ranks ask one another whether to stop."""


@dataclass
class Speed:
    """Links scored, and how long it took."""

    events: int = 0
    links: int = 0
    seconds: float = 0.0

    @property
    def events_per_second(self) -> float:
        return self.events / self.seconds if self.seconds else 0.0

    @property
    def links_per_second(self) -> float:
        return self.links / self.seconds if self.seconds else 0.0

    def add(self, events: int, links: int, seconds: float) -> None:
        self.events += events
        self.links += links
        self.seconds += seconds


@dataclass(frozen=True)
class Scorer:
    """Scores with one run's data and one seed's model."""

    config: Config
    data: RunData
    parts: ModelParts
    display: Display = field(default_factory=Display)
    speed: Speed = field(default_factory=Speed)
    ranking_speed: Speed = field(default_factory=Speed)
    """The speed of passes in which each event has many competitors."""

    def events_per_second(self) -> EventsPerSecond:
        """Return how fast scoring was: events while they were not ranked, links of any kind."""
        scored, ranked = self.speed, self.ranking_speed
        links = Speed(0, scored.links + ranked.links, scored.seconds + ranked.seconds)
        return EventsPerSecond(score=scored.events_per_second, links=links.links_per_second)

    def score(
        self,
        view: EventView,
        plan: BatchPlan,
        negatives: Sequence[Negatives],
        *,
        memory_time: float,
        links_per_event: int,
        title: str = "scoring",
        speed: Speed | None = None,
    ) -> Scores:
        """Return the scores, (B, X). Records the events unless `evaluation.update` is off.

        Negatives that keep the source come before others; so do their columns. `speed`: where to count it.
        """
        started = time.perf_counter()
        world, config = self.data.world, self.config
        planner = self.data.planner(
            self.data.all_neighbors, negatives, key=EVALUATION_KEY, padding_node=self.parts.padding_node
        )
        requests = planner.requests(
            view,
            plan,
            record=config.evaluation.update,
            memory_time=memory_time,
            events_per_piece=max(1, LINKS_PER_PIECE // links_per_event),
        )
        self.parts.model.eval()
        num_mine = len(positions_of(plan, planner.slices))
        # in one piece: small tensors that stay would lie between the large ones that come and go, and no two
        # of these have the same size, so the heap would grow without end; and on the host: ranking 1e8 events
        # would fill a GPU
        scores_BX, done = torch.empty(num_mine, links_per_event), 0
        maker, prefetch = self.parts.batch_maker, config.memory.prefetch
        ahead = rows_ahead(self.parts.memory, requests, prefetch=prefetch, maker=maker)
        with torch.inference_mode(), self.display.stage(title, len(view)), closing(ahead):  # type: ignore[type-var]
            for number, (planned, rows) in enumerate(ahead):
                if number % PIECES_PER_LOOK == 0 and (asked := world.stop_requested()) is not None:
                    raise StopRequested(asked)
                microbatches = self.parts.batch_maker.microbatches(planned, rows)
                logits_BX = score_microbatches(self.parts.model, microbatches)
                scores_BX[done : done + len(planned)] = logits_BX
                done += len(planned)
                # microbatches are about equal, so this rank's tell of all
                all_of_them, own = planner.slices.num_microbatches, len(planner.slices.numbers)
                self.display.advance(len(planned) * all_of_them // own)
        assert done == num_mine
        everything = self._gather(scores_BX, plan, planner.slices)
        (speed or self.speed).add(len(view), everything.size, time.perf_counter() - started)
        return everything

    def _gather(self, mine: Tensor, plan: BatchPlan, slices: BatchSlices) -> Scores:
        """Put the scores in the order of the events; every rank has scored its slice of each batch."""
        everything = np.empty((plan.num_events, mine.shape[1]), dtype=np.float32)
        for rank, part in enumerate(gather_varied(mine, self.data.world.host_group)):
            everything[positions_of(plan, replace(slices, rank=rank))] = part.numpy()
        return everything


def score_microbatches(model: nn.Module, microbatches: Sequence[Microbatch]) -> Tensor:
    """Return scores, (B, X). Each microbatch is scored by itself, as on any number of ranks: products of
    other sizes may be rounded otherwise."""
    filled = [batches for batches in microbatches if len(batches[0])] or microbatches[:1]
    return torch.cat([logits_of(model, batches) for batches in filled])


def logits_of(model: nn.Module, batches: Microbatch) -> Tensor:
    """Return logits, (B, X), in parts where one event alone has many competitors."""
    parts = chain.from_iterable(batch.split_targets(LINKS_PER_PIECE) for batch in batches)
    return torch.cat([model(part) for part in parts], dim=1)


def positions_of(plan: BatchPlan, slices: BatchSlices) -> Positions:
    """Return the events of a rank's slices, batch after batch."""
    events = [np.arange(batch.start, batch.stop)[slices.slice_of(len(batch))] for batch in plan.batches()]
    return np.concatenate([np.empty(0, dtype=np.int64), *events])
