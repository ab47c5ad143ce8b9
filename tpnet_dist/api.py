"""Training, evaluation and runs for notebooks and scripts, as the commands do them.

run = tpnet_dist.fit("data/mine", preset="uci", run_dir="runs/mine", training__epochs=3)
run.results["test"]                                          # what results.json holds
run.curves                                                   # polars: losses, validation by epoch
run.evaluate(negatives=["random", "historical"])
run.predictor().top_k(["ann"], now, k=10)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl

from tpnet_dist.config.keys import keys_of
from tpnet_dist.config.keyword_settings import call_settings, value_of
from tpnet_dist.config.schema import Baseline, Config, NegativeKind
from tpnet_dist.config.train_args import OwnFlags
from tpnet_dist.distributed.rank_scope import process_restored, rank_scope
from tpnet_dist.distributed.stop_request import StopRequested
from tpnet_dist.evaluate_command import EvaluateCommand, evaluate_on_ranks
from tpnet_dist.prediction.predictor import Predictor
from tpnet_dist.train import timeout_of, train_on_ranks
from tpnet_dist.training.curves import read_curves
from tpnet_dist.training.loggers import require_installed
from tpnet_dist.training.run_folder import RunFolder


class RunStopped(KeyboardInterrupt):
    """A signal (Ctrl-C, the stop button of a notebook, SIGTERM) ended a call after it had saved what there is
    to save.

    Like every KeyboardInterrupt it passes `except Exception`, so what comes after the call does not run.
    """

    def __init__(self, sentence: str, run: "Run") -> None:
        super().__init__(sentence)
        self.run = run
        """The run, which goes on when `fit` is called again."""


@dataclass(frozen=True)
class Run:
    """A run folder, which is read whenever something is asked for: a run may be looked at while it trains."""

    path: Path

    @property
    def config(self) -> Config:
        """All settings, defaults included."""
        return RunFolder(self.path).config()

    @property
    def results(self) -> dict[str, Any] | None:
        """The contents of results.json; None before the run is finished."""
        results = RunFolder(self.path).results()
        return None if results is None else results.to_json()

    @property
    def curves(self) -> pl.DataFrame:
        """A row for each training step (`kind` is `step`) and for each validated epoch (`eval`): seed, epoch,
        step, kind, seconds, loss, running_ap, and metrics such as `val/transductive/random/ap`."""
        return read_curves(self.path)

    def predictor(self, **options: Any) -> Predictor:  # noqa: ANN401 — as `Predictor.load` has them
        """Return a Predictor on the best weights, with the options of `Predictor.load`."""
        return Predictor.load(self.path, **options)

    def evaluate(
        self,
        *,
        negatives: Sequence[NegativeKind] | None = None,
        mrr_negatives: int | None = None,
        protocol: Literal["dyglib", "stream"] | None = None,
        update: bool | None = None,
        baseline: Baseline | None = None,
        data: Path | str | None = None,
        save: bool = False,
    ) -> dict[str, Any]:
        """Evaluate the best weights anew, as `python -m tpnet_dist.evaluate` does; what is not given is as in
        the run. `data`: the data folder, if it has moved. `save`: keep the results for `tpnet_dist.report`.
        """
        given: dict[str, object] = {
            **{"negatives": negatives, "mrr_negatives": mrr_negatives, "protocol": protocol},
            **{"update": update, "baseline": baseline, "data": data, "save": save},
        }
        keys = keys_of(EvaluateCommand)
        said: dict[str, Any] = {
            name: value_of(keys[name], value) for name, value in given.items() if value is not None
        }
        stopped = ""
        with process_restored(), rank_scope("Run.evaluate") as world:
            world.phase.again = "call it again"
            try:
                results = evaluate_on_ranks(EvaluateCommand(run=self.path, **said), world)
            except StopRequested as stop:
                stopped = f"{stop} during {world.phase.now}; call it again to begin anew"
        if stopped:
            raise RunStopped(stopped, self)
        return results.to_json()


def fit(
    data: Path | str | None = None,
    *,
    preset: str | None = None,
    config: Path | str | None = None,
    run_dir: Path | str | None = None,
    continue_from: Path | str | None = None,
    learn_old_test: bool = False,
    fresh: bool = False,
    log: Sequence[Literal["csv", "wandb", "mlflow"]] = (),
    **settings: object,
) -> Run:
    """Train a model as `python -m tpnet_dist.train` does: on a data folder, or else on a small built-in log.

    Settings are keys of the configuration, with two underscores for the dot: `memory__decay=1e-7`,
    `training__seeds=[0, 1]`. They change those of the TOML file `config`, which change those of the `preset`.
    If `run_dir` holds an interrupted run, that one goes on, unless the run is to be `fresh`: then it is
    refused. A finished run is returned as it is, or goes on if it may last longer than before. Without
    `run_dir` one is made up in `runs/`. `continue_from`: a run whose weights, optimizer and settings are
    taken, as --continue-from does. `log`: where metrics go besides.

    One process trains on one rank; in a script under torchrun every rank makes the same call, and the ranks
    train together. What cannot be used raises InputError, with one sentence.

    In the main thread SIGINT, SIGTERM and SIGHUP save and raise RunStopped; before training has begun, and
    when they come again two seconds later, they do what they did before. In another thread they do that
    always, and the run goes on from its last checkpoint.
    """
    own = OwnFlags(
        preset=preset,
        config=_path(config),
        run_dir=_path(run_dir),
        continue_from=_path(continue_from),
        learn_old_test=learn_old_test,
        fresh=fresh,
        log=tuple(log),
    )
    asked = call_settings(data, own, settings)
    require_installed(asked.log)
    with process_restored(), rank_scope("tpnet_dist.fit", timeout_of(asked)) as world:
        world.phase.command = "tpnet_dist.fit"
        outcome = train_on_ranks(asked, world, again=_again)
    run = Run(outcome.run_dir)
    # raised where it holds no frame of training, and so none of its memory
    if outcome.stopped:
        raise RunStopped(outcome.stopped, run)
    return run


def evaluate(run: Run | Path | str, **options: Any) -> dict[str, Any]:  # noqa: ANN401 — as `Run.evaluate` has them
    """Evaluate a run, or what lies in a run folder, with the options of `Run.evaluate`."""
    return (run if isinstance(run, Run) else open_run(run)).evaluate(**options)


def _path(given: Path | str | None) -> Path | None:
    return None if given is None else Path(given)


def open_run(path: Path | str) -> Run:
    """Open a run that was started before, finished or not."""
    return Run(RunFolder.open(Path(path)).path)


def _again(made: Path | None) -> str:
    return "call fit again" + (f" with run_dir={str(made)!r}" if made else "")
