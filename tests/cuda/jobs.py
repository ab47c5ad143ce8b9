"""What runs on emulated GPUs, and what is seen while it does."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from tests.support.emulated_cuda import streams
from tests.support.emulated_cuda.device import EmulatedTensor
from tests.support.emulated_cuda.operation_log import LOG
from tpnet_dist.checkup.rank_checks import check_ranks
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.world import World, join_world
from tpnet_dist.files.typed_json import to_json
from tpnet_dist.memory.run_exchange import RunExchange
from tpnet_dist.prediction.predictor import Predictor
from tpnet_dist.training.engine import DdpEngine
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
    are_deterministic: bool = False
    """Whether operations had to be."""


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
    watched.are_deterministic = torch.are_deterministic_algorithms_enabled()
    return watched


def _count_steps(steps: list[StepCounts]) -> None:
    call = TrainStep.__call__

    def counted(self: TrainStep, *args: Any, **kwargs: Any) -> Any:
        with LOG.counted_anew() as alone:
            outcome = call(self, *args, **kwargs)
        steps.append(StepCounts(alone.kernels, alone.copies, alone.waits))
        return outcome

    TrainStep.__call__ = counted  # type: ignore[method-assign]


class _Cut(Exception):
    """Where a training is interrupted."""


def interrupted(config: Config, run: Path, after_steps: int) -> bool:
    """A training that ends in the middle of a step, as if killed: what it saved before stays."""
    call, steps = TrainStep.__call__, iter(range(after_steps))

    def cut(self: TrainStep, *args: Any, **kwargs: Any) -> Any:
        if next(steps, None) is None:
            raise _Cut
        return call(self, *args, **kwargs)

    TrainStep.__call__ = cut  # type: ignore[method-assign]
    try:
        trained(config, run)
    except _Cut:
        return True
    return False


def predictions(run: Path, folder: Path, device: str) -> tuple[list[np.ndarray], Counter[str], int]:
    """Scores of links and the best ones, then after more events, then of a saved predictor; and the GPU that
    is the current one after that."""
    predictor = Predictor.load(run, device=device)
    found = [predictor.score([1, 2, 3], [7, 8, 9], predictor.now)]
    found.append(predictor.top_k([1], predictor.now, k=5).scores[0])
    predictor.observe([1, 2], [7, 8], [predictor.now + 5, predictor.now + 6])
    predictor.save(folder / f"{device}.pt")
    again = Predictor.load(folder / f"{device}.pt", device=device)
    found += [each.score([1, 2, 3], [7, 8, 9], each.now) for each in (predictor, again)]
    return found, LOG.problems, torch.cuda.current_device()


def checked() -> tuple[dict[str, Any], Counter[str]]:
    """What `doctor` checks of ranks."""
    with join_world(TIMEOUT) as world:
        return check_ranks(world), LOG.problems


def waits_for_nothing() -> None:
    """Sabotage: events order nothing."""
    streams.Event.wait = lambda self, stream=None: None  # type: ignore[method-assign]


def forgets_streams() -> None:
    """Sabotage: memory is given back though another stream uses it."""
    EmulatedTensor.record_stream = lambda self, stream: None  # type: ignore[method-assign]


def sums_on_host() -> None:
    """Sabotage: ranks add up a tensor of the host in the group of the gradients."""
    ask = World.stop_requested

    def stop_requested(self: World) -> Any:
        dist.all_reduce(torch.zeros(1))
        return ask(self)

    World.stop_requested = stop_requested  # type: ignore[method-assign]


def looks_at_losses() -> None:
    """Sabotage: every step reads its loss."""
    learn = DdpEngine.learn

    def look(self: DdpEngine, loss: torch.Tensor) -> None:
        loss.item()
        learn(self, loss)

    DdpEngine.learn = look  # type: ignore[method-assign]


def sets_no_device() -> None:
    """Sabotage: threads stay on the first GPU."""
    torch.cuda.set_device = lambda device: None


def makes_groups_lazily() -> None:
    """Sabotage: communicators are made by whoever uses them first."""
    new_group = dist.new_group
    dist.new_group = lambda *args, device_id=None, **kwargs: new_group(*args, **kwargs)


def lends_in_the_thread() -> None:
    """Sabotage: rows set out when a run is arranged, in the thread that runs ahead."""
    arrange = RunExchange.arrange

    def arrange_and_send(self: RunExchange, plan: Any) -> Any:
        dist.all_reduce(torch.zeros(1, device=self.table.rows_NLD.device))
        return arrange(self, plan)

    RunExchange.arrange = arrange_and_send  # type: ignore[method-assign]
