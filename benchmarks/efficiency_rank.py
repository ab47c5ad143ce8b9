"""How fast a model learns and scores, by turns with TPNet; and where the time of a step goes.

Each of the two has a process of its own, which keeps what it has built from turn to turn.
"""

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from benchmarks.contestants import Trainer
from benchmarks.measuring import Quantiles, take_turns
from benchmarks.rank_pool import RankPool
from benchmarks.train_step_ranks import (
    Launch,
    begin_to_score_on_rank,
    contestant,
    learn_on_rank,
    score_on_rank,
)
from tpnet_dist.config.model_configs import DEFAULT_MODEL
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.world import World
from tpnet_dist.spans import NEIGHBORS, RELATIVE_ENCODING, time_spans

SECONDS_PER_TASK = 3600.0
ENCODING_SPANS = (RELATIVE_ENCODING, "borrow", "read", "record")
"""What relative encodings cost: TPNet's come from rows, which have to be kept."""

Phase = Literal["training", "scoring"]


class HostTimes:
    """Seconds of this process in spans of each name, inner ones included in outer ones."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def begin(self, name: str) -> Callable[[], None]:
        started = time.perf_counter()

        def end() -> None:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

        return end


@dataclass(frozen=True)
class Shares:
    """Shares of the seconds of a step in which nothing runs ahead of the model."""

    neighbors: float
    relative_encoding: float
    """The share of relative encodings in the forward pass, and of the memory's rows."""


@dataclass(frozen=True)
class PhaseSpeed:
    """A model in one phase."""

    step_p50: float
    step_p90: float
    """Seconds of a step."""
    tpnet_p50: float
    """TPNet's median seconds in the same turns."""
    times_tpnet: float
    """How many times as long as TPNet it took, the median over turns."""
    shares: Shares


@dataclass(frozen=True)
class Speed:
    """One model's."""

    parameters: int
    training: PhaseSpeed
    scoring: PhaseSpeed


def measure_speed(config: Config, tpnet: Config, *, cores: int, turn_steps: int, turns: int) -> Speed:
    """Measure a model by turns with TPNet: one more turn comes first and is not counted, and one more at the
    end tells where the time goes."""
    launch = Launch("ours", 1, cores)
    configs = {config.model.name: config, DEFAULT_MODEL: tpnet}
    with ExitStack() as stack:
        pools = {name: stack.enter_context(closing(RankPool(1))) for name in configs}

        def run(name: str, act: Callable[..., Any], *args: object) -> Any:  # noqa: ANN401 — what it returns
            [result] = pools[name].run(act, launch, configs[name], *args, seconds=SECONDS_PER_TASK)
            return result

        def measure(phase: Phase) -> PhaseSpeed:
            act = learn_on_rank if phase == "training" else score_on_rank
            acts = {name: partial(run, name, act, turn_steps) for name in configs}
            taken: dict[str, list[list[float]]] = take_turns(acts, turns=turns)
            shares = run(config.model.name, shares_on_rank, phase, turn_steps)
            return _speed(taken[config.model.name], taken[DEFAULT_MODEL], shares)

        training = measure("training")
        for name in configs:
            run(name, begin_to_score_on_rank)
        return Speed(run(config.model.name, parameters_on_rank), training, measure("scoring"))


def _speed(own: list[list[float]], tpnet: list[list[float]], shares: Shares) -> PhaseSpeed:
    """Sum up the seconds of each step of each turn."""
    steps = Quantiles.of(second for turn in own for second in turn)
    ratios = [sum(mine) / sum(others) for mine, others in zip(own, tpnet, strict=True)]
    tpnet_p50 = statistics.median(second for turn in tpnet for second in turn)
    return PhaseSpeed(steps.p50, steps.p90, tpnet_p50, statistics.median(ratios), shares)


def shares_on_rank(world: World, launch: Launch, config: Config, phase: Phase, steps: int) -> Shares:
    trainer, times = contestant(world, launch, config), HostTimes()
    assert isinstance(trainer, Trainer)
    time_spans(times)
    try:
        if phase == "training":
            seconds = sum(trainer.learn_and_look(steps, prefetch=0).seconds)
        else:
            seconds = sum(trainer.score_and_look(steps, prefetch=0))
    finally:
        time_spans(None)
    encoding = sum(times.seconds.get(name, 0.0) for name in ENCODING_SPANS)
    return Shares(times.seconds.get(NEIGHBORS, 0.0) / seconds, encoding / seconds)


def parameters_on_rank(world: World, launch: Launch, config: Config) -> int:
    trainer = contestant(world, launch, config)
    assert isinstance(trainer, Trainer)
    return sum(weight.numel() for weight in trainer.parts.model.parameters())
