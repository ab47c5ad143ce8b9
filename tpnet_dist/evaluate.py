"""`python -m tpnet_dist.evaluate RUN`: evaluate a finished run anew, against other negatives."""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console
from tyro.conf import Positional

from tpnet_dist.config import Config, NegativeKind
from tpnet_dist.errors import errors_for_people
from tpnet_dist.ranks.host_memory import keep_large_buffers
from tpnet_dist.ranks.world import join_world, launched_alone, launched_as_first
from tpnet_dist.training.results import print_results
from tpnet_dist.training.run import evaluate
from tpnet_dist.training.run_folder import RunFolder

PROGRAM = "python -m tpnet_dist.evaluate"


@dataclass(kw_only=True)
class EvaluateCommand:
    """Evaluate the best weights of a run anew; what is not said is as in the run.

    Example: python -m tpnet_dist.evaluate runs/uci --negatives random historical --mrr-negatives 100
    """

    run: Positional[Path]
    """The folder of a run."""
    negatives: tuple[NegativeKind, ...] | None = None
    """Which negatives events are told apart from."""
    mrr_negatives: int | None = None
    """Rank each event against so many random destinations."""
    protocol: Literal["dyglib", "stream"] | None = None
    """Whether inductive figures come from a pass of their own."""
    update: bool | None = None
    """Whether the memory goes on recording through validation and test."""
    baseline: Literal["none", "edgebank"] | None = None
    """A yardstick for the same events and negatives."""
    data: Path | None = None
    """The data folder, if it has moved."""
    json: bool = False
    """Print results as JSON instead of a table."""
    debug: bool = False
    """Show the traceback of an error."""

    def changed(self, config: Config) -> Config:
        """The run's settings with what was said."""
        names = ("negatives", "mrr_negatives", "protocol", "update", "baseline")
        said = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        data = config.data if self.data is None else replace(config.data, folder=str(self.data))
        return replace(config, data=data, evaluation=replace(config.evaluation, **said))


def main() -> None:
    command = tyro.cli(EvaluateCommand, prog=PROGRAM)
    with errors_for_people(
        PROGRAM, debug=command.debug, quiet=not launched_as_first(), at_once=not launched_alone()
    ):
        run = RunFolder.open(command.run)
        keep_large_buffers()
        with join_world() as world:
            results = evaluate(run, command.changed(run.config()), world)
            if world.rank == 0 and command.json:
                json.dump(results, sys.stdout, indent=2)
                print()
            elif world.rank == 0:
                print_results(results, Console())


if __name__ == "__main__":
    main()
