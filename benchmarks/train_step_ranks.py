"""The tasks of `train_step`'s processes; a process keeps what it has built from one task to the next."""

from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch

from benchmarks.contestants import Contestant, Published, Trainer
from benchmarks.measuring import peak_bytes, resident_bytes
from tpnet_dist.batches.event_batches import replay
from tpnet_dist.batches.negatives import Universe
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.host_memory import keep_large_buffers
from tpnet_dist.distributed.world import World
from tpnet_dist.evaluation.scoring import EVALUATION_KEY, Scorer
from tpnet_dist.events.batch_plan import plan_by_events
from tpnet_dist.events.view import EventView


@dataclass(frozen=True)
class Launch:
    """A contestant, and the number of its processes and threads."""

    kind: Literal["ours", "literal"]
    ranks: int
    threads: int

    def __str__(self) -> str:
        return f"{self.kind}, {self.ranks} × {self.threads} thread{'s' * (self.threads > 1)}"


@dataclass(frozen=True)
class Ranking:
    """One-vs-many scoring on one rank."""

    links: int
    seconds: float
    extra_bytes: int
    """Largest resident set while scoring, above that with data, model and memory in place."""


@cache
def contestant(world: World, launch: Launch, config: Config) -> Contestant:
    torch.set_num_threads(launch.threads)
    torch.manual_seed(0)
    if launch.kind == "literal":
        return Published(config)
    keep_large_buffers()
    return Trainer(config, world)


def learn_on_rank(world: World, launch: Launch, config: Config, steps: int) -> list[float]:
    return contestant(world, launch, config).learn(steps)


def begin_to_score_on_rank(world: World, launch: Launch, config: Config) -> None:
    contestant(world, launch, config).begin_to_score()


def score_on_rank(world: World, launch: Launch, config: Config, steps: int) -> list[float]:
    return contestant(world, launch, config).score(steps)


def peak_bytes_of_rank(world: World) -> int:
    return peak_bytes()


def rank_links_on_rank(
    world: World, launch: Launch, config: Config, num_events: int, competitors: int
) -> Ranking:
    """Rank the last events of the log against `competitors` random destinations each, by the evaluation's
    scorer.

    In a process that has done nothing else yet, as its largest resident set counts.
    """
    trainer = contestant(world, launch, config)
    assert isinstance(trainer, Trainer) and trainer.parts.memory is not None
    log, size = trainer.data.log, config.evaluation.batch_size
    before, ranked = (
        EventView(log, *ends) for ends in ((0, len(log) - num_events), (len(log) - num_events, len(log)))
    )
    trainer.parts.memory.reset(0)
    replay(trainer.parts.memory, log, before, plan_by_events(len(before), size))
    universe = Universe(EventView(log, 0, len(log)))
    scorer = Scorer(config, trainer.data, trainer.parts)
    resident = resident_bytes()
    scorer.score(
        ranked,
        plan_by_events(len(ranked), size),
        [universe.random(EVALUATION_KEY, competitors, avoid_true=True)],
        memory_time=trainer.data.time_before(before),
        links_per_event=1 + competitors,
    )
    extra = peak_bytes() - resident
    return Ranking(scorer.speed.links, scorer.speed.seconds, extra)
