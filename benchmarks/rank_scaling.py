"""How much faster several ranks of one thread train than one, and how long they stand still for one another.

The part of `train_step` that `--ranks 1 2 4` asks for: the real trainer's steps, launches taking turns, each
with and without prefetch. A rank stands still while it waits for rows, and for the gradients of others as far
as its own backward pass does not hide it.
"""

from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.contestants import StepTimes, Trainer
from benchmarks.measuring import Quantiles, take_turns
from benchmarks.rank_pool import RankPool
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.host_memory import keep_large_buffers
from tpnet_dist.distributed.world import World

SECONDS_PER_TASK = 3600.0


@dataclass(frozen=True)
class Launch:
    """A number of ranks of one thread each, and their prefetch."""

    ranks: int
    prefetch: int


@dataclass(frozen=True)
class RankFigures:
    """One launch."""

    ranks: int
    prefetch: int
    step_p50_ms: float
    step_p90_ms: float
    events_per_second: float
    """Events per second over whole turns."""
    times_first: float
    """The speed over that of the first number of ranks with the same prefetch."""
    wait_share: float
    """The share of a step spent waiting for rows; mean over ranks and steps."""
    all_reduce_share: float
    """The share of a step in which gradients travel that backward does not hide."""

    @property
    def exposed_share(self) -> float:
        return self.wait_share + self.all_reduce_share


def measure_ranks(config: Config, ranks: tuple[int, ...], *, steps: int, turns: int) -> list[RankFigures]:
    """Time the ranks' steps in turns; one turn more comes first and is not counted."""
    prefetches = dict.fromkeys([config.memory.prefetch, 0])
    launches = [Launch(number, prefetch) for prefetch in prefetches for number in dict.fromkeys(ranks)]
    with ExitStack() as stack:
        # the same processes with and without prefetch: the fewer stand by, the less they disturb
        pools = {number: stack.enter_context(closing(RankPool(number))) for number in dict.fromkeys(ranks)}
        acts = {launch: partial(_turn, pools[launch.ranks], launch, config, steps) for launch in launches}
        taken = take_turns(acts, turns=turns)
    times = {
        launch: [one for of_ranks in turns_taken for one in of_ranks] for launch, turns_taken in taken.items()
    }
    size = config.training.batch_size
    rates = {launch: _rate(times[launch], size, launch.ranks) for launch in launches}
    return [_figures(launch, times[launch], rates, ranks[0]) for launch in launches]


def _turn(pool: RankPool, launch: Launch, config: Config, steps: int) -> list[StepTimes]:
    args = (config, steps, launch.prefetch)
    times: list[StepTimes] = pool.run(learn_on_rank, *args, seconds=SECONDS_PER_TASK)
    return times


def learn_on_rank(world: World, config: Config, steps: int, prefetch: int) -> StepTimes:
    return trainer_of(world, config).learn_and_look(steps, prefetch)


@cache
def trainer_of(world: World, config: Config) -> Trainer:
    torch.set_num_threads(1)
    keep_large_buffers()
    return Trainer(config, world)


def _rate(times: list[StepTimes], batch_size: int, num_ranks: int) -> float:
    turns = [times[first : first + num_ranks] for first in range(0, len(times), num_ranks)]
    # a step is over when the last rank is
    seconds = sum(float(np.max([one.seconds for one in turn], axis=0).sum()) for turn in turns)
    return batch_size * sum(len(turn[0].seconds) for turn in turns) / seconds


def _figures(
    launch: Launch, times: list[StepTimes], rates: dict[Launch, float], first_ranks: int
) -> RankFigures:
    seconds = np.concatenate([one.seconds for one in times])
    taken, total = Quantiles.of(seconds), float(seconds.sum())
    return RankFigures(
        ranks=launch.ranks,
        prefetch=launch.prefetch,
        step_p50_ms=1e3 * taken.p50,
        step_p90_ms=1e3 * taken.p90,
        events_per_second=rates[launch],
        times_first=rates[launch] / rates[Launch(first_ranks, launch.prefetch)],
        wait_share=sum(sum(one.waits) for one in times) / total,
        all_reduce_share=sum(sum(one.all_reduces) for one in times) / total,
    )


def print_ranks(figures: list[RankFigures]) -> None:
    table = Table("ranks", "prefetch", title="Training steps of 200 events, ranks of one thread")
    for heading in ("P50 ms", "P90 ms", "events/s", f"× {figures[0].ranks} rank(s)", "waits", "all-reduce"):
        table.add_column(heading, justify="right")
    for one in figures:
        table.add_row(
            *(str(one.ranks), str(one.prefetch)),
            *(f"{value:,.0f}" for value in (one.step_p50_ms, one.step_p90_ms, one.events_per_second)),
            *(f"{one.times_first:.2f}", f"{one.wait_share:.1%}", f"{one.all_reduce_share:.1%}"),
        )
    Console(width=120).print(table)


def as_results(figures: list[RankFigures]) -> list[dict[str, Any]]:
    return [asdict(one) | {"exposed_share": one.exposed_share} for one in figures]
