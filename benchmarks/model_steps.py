"""How long a step of 200 events takes with each model, in training and in scoring, and its products alone.

    python -m benchmarks.model_steps --data data/uci --preset uci
    python -m benchmarks.model_steps --data data/uci --preset uci --models tpnet dygformer --turns 4

Every model has a process of its own, with the settings of the preset, and all take turns of a few steps. The
first turn is not counted. It is the real trainer's path: planning, neighbours, forward, backward, optimizer.

Then each process notes the matrix products of one step and repeats them by themselves, on numbers that lie as
theirs did: what no other arrangement of the same products would save. `published` is what the released code
took on UCI, on two cores of another machine.
"""

from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import Quantiles, take_turns
from benchmarks.products import seconds_of_products
from benchmarks.rank_pool import RankPool
from benchmarks.results_line import print_results_line
from benchmarks.train_step_ranks import Launch, begin_to_score_on_rank, learn_on_rank, score_on_rank
from tpnet_dist.config.keys import config_from
from tpnet_dist.config.schema import Config
from tpnet_dist.config.toml_files import read_preset
from tpnet_dist.errors import InputError, errors_for_people
from tpnet_dist.models.registry import MODELS

SECONDS_PER_TASK = 3600.0
Phase = Literal["training", "scoring"]
PUBLISHED: dict[str, tuple[float, float]] = {
    "tpnet": (0.937, 0.270),
    "tcl": (1.235, 0.430),
    "graphmixer": (1.628, 0.923),
    "dygformer": (1.984, 0.450),
    "tgat": (5.825, 1.909),
    "cawn": (16.853, 5.007),
}
"""Seconds per 200 events of UCI in the released code, training and scoring, on two cores of an AMD EPYC."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """On what, and for how long."""

    data: Path
    """A data folder."""
    preset: str | None = None
    """Settings of one of the paper's datasets."""
    models: tuple[str, ...] = MODELS
    """Which models take turns."""
    profile: str | None = None
    """`model.profile` of those that have it; by default theirs."""
    precision: Literal["float32", "bfloat16"] = "float32"
    steps: int = 2
    """Steps of each turn."""
    turns: int = 5
    """Counted turns; one more comes first."""
    threads: int = 2
    """Threads of each process."""


@dataclass(frozen=True)
class Figures:
    """One model in one phase."""

    model: str
    phase: Phase
    seconds: float
    """Median of a step."""
    seconds_p90: float
    seconds_of_products: float
    products: int
    times_tpnet: float | None
    """As many times as long as TPNet in the same run; None: it did not take part."""
    published: float


def main(args: list[str] | None = None) -> None:
    settings = tyro.cli(Settings, description=__doc__, args=args)
    with errors_for_people("python -m benchmarks.model_steps", debug=False), ExitStack() as stack:
        _check(settings)
        configs = {name: _config(settings, name) for name in settings.models}
        pools = {name: stack.enter_context(closing(RankPool(1))) for name in settings.models}
        contest = Contest(settings, configs, pools)
        figures = [*contest.measure("training"), *contest.measure("scoring")]
    print_table(figures)
    asked = asdict(settings) | {"data": str(settings.data)}
    print_results_line("model_steps", {"settings": asked, "figures": [asdict(one) for one in figures]})


@dataclass(frozen=True)
class Contest:
    """Processes that take turns."""

    settings: Settings
    configs: dict[str, Config]
    pools: dict[str, RankPool]

    def measure(self, phase: Phase) -> list[Figures]:
        if phase == "scoring":
            for name in self.pools:
                self._run(name, begin_to_score_on_rank)
        act = learn_on_rank if phase == "training" else score_on_rank
        acts = {name: partial(self._run, name, act, self.settings.steps) for name in self.pools}
        taken = take_turns(acts, turns=self.settings.turns)
        laps = {name: [lap for turn in turns for lap in turn] for name, turns in taken.items()}
        tpnet = Quantiles.of(laps["tpnet"]).p50 if "tpnet" in laps else None
        return [self._figures(name, phase, laps[name], tpnet) for name in self.pools]

    def _figures(self, name: str, phase: Phase, laps: list[float], tpnet: float | None) -> Figures:
        products = self._run(name, seconds_of_products, phase)
        of_step = Quantiles.of(laps)
        return Figures(
            model=name,
            phase=phase,
            seconds=of_step.p50,
            seconds_p90=of_step.p90,
            seconds_of_products=products.seconds,
            products=products.count,
            times_tpnet=None if tpnet is None else of_step.p50 / tpnet,
            published=PUBLISHED[name][phase == "scoring"] if name in PUBLISHED else float("nan"),
        )

    def _run(self, name: str, act: Any, *args: object) -> Any:  # noqa: ANN401 — whatever the act returns
        launch = Launch("ours", 1, self.settings.threads)
        [answer] = self.pools[name].run(act, launch, self.configs[name], *args, seconds=SECONDS_PER_TASK)
        return answer


def _config(settings: Settings, model: str) -> Config:
    layers = [] if settings.preset is None else [read_preset(settings.preset, model)]
    said: dict[str, object] = {
        "data.folder": str(settings.data),
        "model.name": model,
        "training.precision": settings.precision,
    }
    if settings.profile is not None:
        said["model.profile"] = settings.profile
    return config_from([*layers, said])


def _check(settings: Settings) -> None:
    for name in ("steps", "turns", "threads"):
        if getattr(settings, name) < 1:
            raise InputError(f"--{name} is {getattr(settings, name)}, but must be at least 1; raise it")
    if not settings.models:
        raise InputError(f"--models names none, but at least one must run; take some of {', '.join(MODELS)}")


def print_table(figures: list[Figures]) -> None:
    table = Table("phase", "model", title="A step of 200 events")
    for heading in ("s P50", "s P90", "products s", "× products", "× TPNet", "published s"):
        table.add_column(heading, justify="right")
    for one in figures:
        table.add_row(
            one.phase,
            one.model,
            f"{one.seconds:.3f}",
            f"{one.seconds_p90:.3f}",
            f"{one.seconds_of_products:.3f}",
            f"{one.seconds / one.seconds_of_products:.2f}",
            "" if one.times_tpnet is None else f"{one.times_tpnet:.2f}",
            f"{one.published:.3f}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
