"""What runs on emulated GPUs, and what is seen while it does."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.support.emulated_cuda.operation_log import LOG
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.world import join_world
from tpnet_dist.files.typed_json import to_json
from tpnet_dist.training.metrics_file import METRICS_NAME
from tpnet_dist.training.run import train
from tpnet_dist.training.train_step import TrainStep

TIMEOUT = timedelta(seconds=120)


@dataclass
class StepCounts:
    """What one training step asked of the device, in all threads."""

    kernels: Counter[tuple[str, str]]
    copies: Counter[str]
    waits: Counter[tuple[str, str]]


@dataclass
class Watched:
    """A training on one rank."""

    losses: list[float] = field(default_factory=list)
    """Of every step; of the first rank."""
    figures: dict[str, Any] = field(default_factory=dict)
    steps: list[StepCounts] = field(default_factory=list)
    problems: Counter[str] = field(default_factory=Counter)
    collectives: list[tuple[str, str, tuple[int, ...]]] = field(default_factory=list)
    launchers: set[str] = field(default_factory=set)
    devices: set[int] = field(default_factory=set)
    waits: Counter[tuple[str, str]] = field(default_factory=Counter)


def trained(config: Config, run: Path, sabotage: Callable[[], None] | None = None) -> Watched:
    """Train, validate, evaluate, on every rank; `sabotage` is done to this process before."""
    watched = Watched()
    _count_steps(watched.steps)
    if sabotage is not None:
        sabotage()
    with join_world(TIMEOUT) as world:
        results = train(config, run, world)
        if world.rank == 0:
            watched.figures = to_json(results)["seeds"]["0"]
            lines = map(json.loads, (run / METRICS_NAME).read_text().splitlines())
            watched.losses = [line["loss"] for line in lines if line["kind"] == "step"]
    watched.problems, watched.collectives, watched.waits = LOG.problems, LOG.collectives, LOG.waits
    watched.launchers, watched.devices = LOG.launchers, LOG.devices
    return watched


def _count_steps(steps: list[StepCounts]) -> None:
    call = TrainStep.__call__

    def counted(self: TrainStep, *args: Any, **kwargs: Any) -> Any:
        with LOG.counted_anew() as alone:
            outcome = call(self, *args, **kwargs)
        steps.append(StepCounts(alone.kernels, alone.copies, alone.waits))
        return outcome

    TrainStep.__call__ = counted  # type: ignore[method-assign]
