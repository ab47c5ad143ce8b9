"""How fast a training step and scoring are, against a literal form of the published algorithm.

    python -m benchmarks.train_step --data data/uci --ranking 100
    python -m benchmarks.train_step                              # a social log of UCI's size, no data needed
    python -m benchmarks.train_step --ranks 1 2 4                # ranks against one another instead

Batches of 200 events, dropout 0.1, 20 neighbours, 3 hops, the paper's width, one random negative per event.
Ours is the real trainer's path: planning, fetch, record, forward, backward, optimizer; launched once as one
rank with all cores and once as a rank per core. The literal form decays the whole table for each batch, looks
neighbours up node by node, computes all 8×8 products of every pair, multiplies 172 zero node and 172 zero
edge features, and scores positive and negative links apart; a test holds that its losses are the trainer's.
It is 10-18 % slower than the released code itself, which had 213-225 events/s in training where it had
177-191. All take turns of a few steps, in processes of their own. The first turn is not counted, and a turn
of ours begins with an empty pipeline, so all of its planning is counted. `--ranking K` also scores events of
the end of the log against K other destinations each, by the evaluation's scorer.
"""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import MIB, Quantiles, take_turns
from benchmarks.rank_pool import RankPool
from benchmarks.rank_scaling import as_results, measure_ranks, print_ranks
from benchmarks.results_line import print_results_line
from benchmarks.train_step_ranks import (
    Launch,
    begin_to_score_on_rank,
    learn_on_rank,
    peak_bytes_of_rank,
    rank_links_on_rank,
    score_on_rank,
)
from data_prep.synth import make_log
from tpnet_dist.batches.run_data import split_of
from tpnet_dist.config.schema import Config, DataConfig, MemoryConfig
from tpnet_dist.errors import InputError, errors_for_people
from tpnet_dist.events.reader import EventLog
from tpnet_dist.models.tpnet.config import TPNetConfig

UCI_EVENTS, UCI_NODES, UCI_DECAY = 59_835, 1_899, 1e-7
SECONDS_PER_TASK = 3600.0

Phase = Literal["training", "scoring"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The log, the contestants, and the number of steps and turns."""

    data: Path | None = None
    """A data folder; by default a social log of UCI's size, made for the occasion."""
    steps: int = 5
    """The number of steps of each turn."""
    turns: int = 6
    """The number of counted turns; one more comes first."""
    cores: int = 2
    """Threads of the literal form and of ours as one rank; ours also as so many ranks of one thread."""
    profile: Literal["published", "paper"] = "published"
    """The profile of our model; the literal form is `published`."""
    ranks: tuple[int, ...] = ()
    """Compare these numbers of ranks of one thread, with and without prefetch, and nothing else."""
    ranking: int = 0
    """The number of other destinations that each event is ranked against; 0: no ranking."""
    ranking_events: int = 1000
    """The number of events that are ranked, the last of the log."""


@dataclass(frozen=True)
class Figures:
    """One launch in one phase."""

    launch: str
    phase: Phase
    step_p50_ms: float
    step_p90_ms: float
    events_per_second: float
    """Events per second over whole turns."""
    times_literal: float
    peak_mib_per_rank: float
    """Largest resident set of any of its processes, so far."""


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    with errors_for_people("python -m benchmarks.train_step", debug=False), ExitStack() as stack:
        config = _config(settings, stack)
        if settings.ranks:
            compare_ranks(settings, config)
            return
        contest = Contest(settings, config, stack)
        figures = [*contest.measure("training"), *contest.measure("scoring")]
        best = {phase: _best(figures, phase) for phase in ("training", "scoring")}
        results = {"figures": [asdict(one) for one in figures], "best": best}
        if settings.ranking:
            results["ranking"] = measure_ranking(settings, config)
    print_tables(results)
    print_results_line("train_step", {"settings": _asked(settings), **results})


def compare_ranks(settings: Settings, config: Config) -> None:
    figures = measure_ranks(config, settings.ranks, steps=settings.steps, turns=settings.turns)
    print_ranks(figures)
    print_results_line("train_step", {"settings": _asked(settings), "ranks": as_results(figures)})


def _asked(settings: Settings) -> dict[str, Any]:
    return asdict(settings) | {"data": settings.data and str(settings.data)}


class Contest:
    """Processes that take turns."""

    def __init__(self, settings: Settings, config: Config, stack: ExitStack) -> None:
        cores = settings.cores
        self.settings, self.config = settings, config
        self.literal = Launch("literal", 1, cores)
        launches = dict.fromkeys([self.literal, Launch("ours", 1, cores), Launch("ours", cores, 1)])
        self.pools = {launch: stack.enter_context(closing(RankPool(launch.ranks))) for launch in launches}

    def measure(self, phase: Phase) -> list[Figures]:
        if phase == "scoring":
            for launch in self.pools:
                self._run(launch, begin_to_score_on_rank)
        act = learn_on_rank if phase == "training" else score_on_rank
        acts = {launch: partial(self._run, launch, act, self.settings.steps) for launch in self.pools}
        taken = take_turns(acts, turns=self.settings.turns)
        # a step is over when the last rank is
        seconds = {
            launch: np.concatenate([np.max(of_ranks, axis=0) for of_ranks in turns]).tolist()
            for launch, turns in taken.items()
        }
        return [self._figures(launch, phase, seconds) for launch in self.pools]

    def _run(self, launch: Launch, act: Callable[..., Any], *args: object) -> list[Any]:
        return self.pools[launch].run(act, launch, self.config, *args, seconds=SECONDS_PER_TASK)

    def _figures(self, launch: Launch, phase: Phase, seconds: dict[Launch, list[float]]) -> Figures:
        mine = seconds[launch]
        taken = Quantiles.of(mine)
        return Figures(
            launch=str(launch),
            phase=phase,
            step_p50_ms=1e3 * taken.p50,
            step_p90_ms=1e3 * taken.p90,
            events_per_second=self.config.training.batch_size * len(mine) / sum(mine),
            times_literal=sum(seconds[self.literal]) / sum(mine),
            peak_mib_per_rank=max(self.pools[launch].run(peak_bytes_of_rank)) / MIB,
        )


def measure_ranking(settings: Settings, config: Config) -> dict[str, float]:
    """Rank links in a process of its own, with all cores."""
    launch = Launch("ours", 1, settings.cores)
    with closing(RankPool(1)) as pool:
        arguments = (launch, config, settings.ranking_events, settings.ranking)
        [ranking] = pool.run(rank_links_on_rank, *arguments, seconds=SECONDS_PER_TASK)
    return {
        "competitors": settings.ranking,
        "links": ranking.links,
        "links_per_second": ranking.links / ranking.seconds,
        "extra_mib": ranking.extra_bytes / MIB,
    }


def _config(settings: Settings, stack: ExitStack) -> Config:
    folder = settings.data
    if folder is None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="train-step-"))) / "social"
        make_log(folder, kind="social", events=UCI_EVENTS, average_degree=2 * UCI_EVENTS / UCI_NODES)
    config = Config(
        data=DataConfig(folder=str(folder)),
        memory=MemoryConfig(decay=UCI_DECAY),
        model=TPNetConfig(profile=settings.profile),
    )
    _check(settings, config)
    return config


def _check(settings: Settings, config: Config) -> None:
    for name, value in (("steps", settings.steps), ("turns", settings.turns), ("cores", settings.cores)):
        if value < 1:
            raise InputError(f"--{name} is {value}, but must be at least 1; raise it")
    if any(number < 1 for number in settings.ranks):
        raise InputError(f"--ranks is {settings.ranks}, but each must be at least 1; leave the others out")
    log = EventLog(config.data.folder)
    split, batch_size = split_of(log, config.data), config.training.batch_size
    wanted, there = settings.steps * (1 + settings.turns), len(split.train) // 2 // batch_size
    if settings.ranks:
        wanted *= 2  # with and without prefetch
    else:
        there = min(there, len(split.val) // batch_size)
    if wanted > there:
        raise InputError(
            f"{config.data.folder} has {there} batches where {wanted} are asked for; lower --steps or --turns"
        )
    if log.edge_features is not None or log.node_features is not None:
        raise InputError(
            f"{config.data.folder} has features, which the literal form does not; take a log without"
        )


def _best(figures: list[Figures], phase: str) -> str:
    ours = [one for one in figures if one.phase == phase and one.launch.startswith("ours")]
    return max(ours, key=lambda one: one.events_per_second).launch


def print_tables(results: dict[str, Any]) -> None:
    table = Table("phase", "launch", title="Steps of 200 events")
    for heading in ("P50 ms", "P90 ms", "events/s", "× literal", "peak MiB per rank"):
        table.add_column(heading, justify="right")
    for row in results["figures"]:
        is_best = results["best"][row["phase"]] == row["launch"]
        table.add_row(
            row["phase"],
            row["launch"] + " (best)" * is_best,
            *(f"{row[name]:,.0f}" for name in ("step_p50_ms", "step_p90_ms", "events_per_second")),
            f"{row['times_literal']:.2f}",
            f"{row['peak_mib_per_rank']:,.0f}",
        )
    console = Console(width=120)
    console.print(table)
    if ranking := results.get("ranking"):
        console.print(
            f"one against {ranking['competitors']}: {ranking['links_per_second']:,.0f} links/s, "
            f"{ranking['extra_mib']:,.0f} MiB above data, model and memory"
        )


if __name__ == "__main__":
    main()
