"""`python -m tpnet_dist.evaluate RUN`: evaluate a finished run anew, against other negatives."""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from tyro.conf import Positional, arg

from tpnet_dist.config.commands import CommandParser
from tpnet_dist.config.keys import values_of
from tpnet_dist.config.schema import Baseline, Config, NegativeKind
from tpnet_dist.distributed.rank_command import end_rank, run_on_ranks
from tpnet_dist.errors import spoken

if TYPE_CHECKING:
    from tpnet_dist.distributed.world import World
    from tpnet_dist.evaluation.results import Results

PROGRAM = "python -m tpnet_dist.evaluate"


@dataclass(kw_only=True)
class EvaluateCommand:
    """Evaluate the best weights of a run anew; what is not said is as in the run.

    Example: tpnet evaluate runs/uci --negatives random historical --mrr-negatives 100
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """The folder of a run."""
    negatives: Annotated[tuple[NegativeKind, ...] | None, arg(metavar="random|historical|inductive …")] = None
    """The kinds of negatives that events are scored against."""
    mrr_negatives: Annotated[int | None, arg(metavar="COUNT")] = None
    """Rank each event against so many random destinations."""
    protocol: Annotated[Literal["dyglib", "stream"] | None, arg(metavar="dyglib|stream")] = None
    """Whether inductive figures come from a pass of their own."""
    update: Annotated[bool | None, arg(metavar="True|False")] = None
    """Whether the memory goes on recording through validation and test."""
    baseline: Annotated[Baseline | None, arg(metavar="none|edgebank|destinations|all")] = None
    """Baselines for the same events and negatives."""
    data: Annotated[Path | None, arg(metavar="DIR")] = None
    """The data folder, if it has moved."""
    save: bool = False
    """Keep the figures in the run's folder, in evaluation.json, for tpnet_dist.report."""
    json: bool = False
    """Print results as JSON instead of a table."""
    ranks: Annotated[str, arg(metavar="auto|COUNT")] = "auto"
    """How many ranks to start on this machine; auto: one for each GPU, and one where there is none."""
    debug: bool = False
    """Show the traceback of an error."""
    restarts: ClassVar[int] = 0

    def changed(self, config: Config) -> Config:
        """Return the run's settings, changed by the command's."""
        names = ("negatives", "mrr_negatives", "protocol", "update", "baseline")
        said = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        data = config.data if self.data is None else replace(config.data, folder=str(self.data))
        return replace(config, data=data, evaluation=replace(config.evaluation, **said))


def parse_evaluate(args: list[str]) -> EvaluateCommand:
    return CommandParser(EvaluateCommand, PROGRAM, "run", "run").parse(args)


def main() -> None:
    run_on_ranks(PROGRAM, parse_evaluate, _run)


def _run(command: EvaluateCommand) -> None:
    # torch takes seconds to import: --help and a wrong flag are not to wait for it
    from rich.console import Console

    from tpnet_dist.distributed.rank_scope import rank_scope
    from tpnet_dist.distributed.stop_request import StopRequested
    from tpnet_dist.evaluation.results_table import print_results

    stopped: StopRequested | None = None
    with rank_scope(PROGRAM) as world:
        try:
            results = evaluate_on_ranks(command, world)
        except StopRequested as stop:
            stopped = stop
        if world.rank == 0:
            if stopped is not None:
                print(f"{spoken(PROGRAM)}: {stopped}", file=sys.stderr, flush=True)
            elif command.json:
                json.dump(results.to_json(), sys.stdout, indent=2)
                print()
            else:
                print_results(results, Console())
    if stopped is not None:
        end_rank(128 + stopped.number)
        sys.exit(128 + stopped.number)


def evaluate_on_ranks(command: EvaluateCommand, world: "World") -> "Results":
    """Return the results of the run by the settings of the command, on every rank; saved if it says so.

    StopRequested on every rank, if a signal asks to stop.
    """
    from tpnet_dist.training.run import evaluate
    from tpnet_dist.training.run_folder import RunFolder

    # other hosts need not see the folder
    run = world.on_first_rank(lambda: RunFolder.open(command.run))
    config = command.changed(world.on_first_rank(run.config))
    world.require_agreement({**values_of(config), "--save": command.save})
    if command.save:
        world.on_first_rank(lambda: run.require_savable(config))
    results = evaluate(run, config, world)
    if command.save:
        path = world.on_first_rank(lambda: run.write_evaluation(results))
        if world.rank == 0:
            print(f"{path}: what python -m tpnet_dist.report shows beside the run's own", file=sys.stderr)
    return results
