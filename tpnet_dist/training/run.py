"""A run from its settings to its results: every seed trained, baselines measured, all of it kept."""

from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.console import Console

from tpnet_dist.batches.run_data import RunData
from tpnet_dist.config.keys import values_of
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.world import World
from tpnet_dist.evaluation.baselines import baseline_figures
from tpnet_dist.evaluation.protocols import Evaluator, Passes
from tpnet_dist.evaluation.results import Figures, Results, SeedResults
from tpnet_dist.evaluation.results_table import print_results
from tpnet_dist.evaluation.run_info import conditions_of, run_info
from tpnet_dist.evaluation.scoring import Scorer
from tpnet_dist.files.progress import Display, display_for
from tpnet_dist.training.best_epoch import PARTS, evaluate_best
from tpnet_dist.training.checkpoint import CheckpointFolder, RunFacts
from tpnet_dist.training.continued import prefix_of
from tpnet_dist.training.metrics_file import METRICS_NAME, EpochLine, mean_exchange, read_lines
from tpnet_dist.training.preflight import Preflight
from tpnet_dist.training.run_folder import RunFolder
from tpnet_dist.training.run_log import RunLog
from tpnet_dist.training.run_model import RunModel
from tpnet_dist.training.step_profile import PROFILE_NAME, ProfileRequest
from tpnet_dist.training.trainer import SeedTrainer


def train(
    config: Config,
    run_dir: Path,
    world: World,
    *,
    fresh: bool = False,
    profile_steps: int = 0,
    loggers: Sequence[str] = (),
) -> Results:
    """Start the run, go on with it (unless it is to be `fresh`), or show what it came to; every rank gets the
    results."""
    prefix = world.on_first_rank(lambda: prefix_of(run_dir, config))
    preflight = Preflight.of(config, world, prefix.log_id if prefix else None)
    with RunFolder.locked(run_dir, world):
        run = world.on_first_rank(lambda: RunFolder.start(run_dir, config, fresh=fresh))
        if prefix is not None:
            display_for(world.rank).say(prefix.said)
        profile = ProfileRequest(profile_steps, run_dir / PROFILE_NAME)
        return _results(preflight, run, world, profile, loggers)


def _results(
    preflight: Preflight, run: RunFolder, world: World, profile: ProfileRequest, loggers: Sequence[str]
) -> Results:
    """Return the results that the run has, or train it to get them."""
    results = world.on_first_rank(run.results)
    if results is not None:
        display_for(world.rank).say(f"{run.path}: this run is finished; here is what it came to")
    else:
        results = _train_seeds(preflight, run, world, profile, loggers)
    if world.rank == 0:
        print_results(results, Console())
    return results


def evaluate(run: RunFolder, config: Config, world: World) -> Results:
    """Return the figures of every seed's best weights, by the settings given; the run stays as it is."""
    started, display = datetime.now(UTC), display_for(world.rank)
    prefix = world.on_first_rank(lambda: prefix_of(run.path, config))
    preflight = Preflight.to_evaluate(config, world, prefix.log_id if prefix else None)
    if prefix is not None:
        display.say(prefix.said)
    data = open_data(config, world, preflight)
    passes = Passes(config, data)

    def evaluate_seed(seed: int) -> SeedResults:
        world.phase.now = f"the evaluation of seed {seed}"
        parts = RunModel.build(
            config, data.log, world, seed, data.row_exchange, borrowed_rows=data.borrowed_rows
        )
        scorer = Scorer(config, data, parts, display)
        figures = evaluate_best(Evaluator(scorer, passes), _checkpoints(run, seed, data, display), display)
        return SeedResults(
            val=figures["val"], test=figures["test"], events_per_second=scorer.events_per_second()
        )

    # one seed's model and memory at a time
    by_seed = {seed: evaluate_seed(seed) for seed in config.training.all_seeds()}
    return _with_circumstances(by_seed, passes, started)


def open_data(config: Config, world: World, preflight: Preflight | None = None) -> RunData:
    """Open the same data on every rank, or raise an error that names what differs. What preflight read is
    not read again."""
    preflight = preflight or Preflight.of(config, world)
    data = RunData.open(config, world, preflight.opened, preflight.needed.borrowed_rows)
    world.require_agreement(data.log.manifest.content())
    return data


def _train_seeds(
    preflight: Preflight, run: RunFolder, world: World, profile: ProfileRequest, loggers: Sequence[str]
) -> Results:
    started, config = datetime.now(UTC), preflight.config
    data, display = open_data(config, world, preflight), display_for(world.rank)
    display.say(f"{run.path}: {_summary(data)}")
    if line := preflight.decay_line():
        display.say(f"memory.decay is {line}")
    if world.rank == 0:
        for remark in preflight.remarks():
            display.say(remark)
    passes = Passes(config, data)
    by_seed = {}
    log_of_run = partial(RunLog, run.path, loggers=loggers, settings=dict(values_of(config)), say=display.say)
    with closing(log_of_run()) if world.rank == 0 else nullcontext() as log:
        for seed in config.training.all_seeds():
            # not kept: the next seed needs its room
            by_seed[seed] = SeedTrainer(
                config,
                data,
                seed,
                passes=passes,
                checkpoints=_checkpoints(run, seed, data, display),
                log=log,
                display=display,
                profile=profile,
            ).train()
    results = _with_circumstances(by_seed, passes, started)
    return world.on_first_rank(lambda: _finish(run, results))


def _with_circumstances(by_seed: dict[int, SeedResults], passes: Passes, started: datetime) -> Results:
    """Return results: seeds' figures, those of baselines, and how they came about."""
    config, data = passes.config, passes.data
    return Results(
        conditions=conditions_of(config, data.world),
        seeds=by_seed,
        baselines=_baselines(passes),
        run=run_info(data, started),
    )


def _finish(run: RunFolder, results: Results) -> Results:
    """Add what the epochs before a restart exchanged, which only their lines tell."""
    lines = [line for _, line in read_lines(run.path / METRICS_NAME) if isinstance(line, EpochLine)]
    seeds = {
        seed: replace(own, exchange=mean_exchange(line for line in lines if line.seed == seed))
        for seed, own in results.seeds.items()
    }
    results = replace(results, seeds=seeds)
    run.write_results(results)
    return results


def _checkpoints(run: RunFolder, seed: int, data: RunData, display: Display) -> CheckpointFolder:
    facts = RunFacts(seed, data.log.manifest.log_id, dict(values_of(data.config)))
    return run.checkpoints(facts, keep=data.config.checkpoint.keep, world=data.world, display=display)


def _baselines(passes: Passes) -> dict[str, dict[str, Figures]]:
    """Return figures of baselines, by name, then by part."""
    config = passes.config.evaluation
    if config.baseline == "none":
        return {}
    by_part = {name: baseline_figures(passes, name, config.negatives) for name in PARTS}
    return {bank: {name: by_part[name][bank] for name in PARTS} for bank in by_part["test"]}


def _summary(data: RunData) -> str:
    split, world = data.split, data.world
    num_unseen = int(split.unseen_nodes.sum())
    return (
        f"{len(split.train):,} events to train on, {len(split.val):,} for validation, {len(split.test):,} "
        f"for test, {data.log.num_nodes:,} nodes, {num_unseen:,} of them unseen in training; "
        f"{world.num_ranks} rank{'s' * (world.num_ranks > 1)} on {world.device.type}"
    )
