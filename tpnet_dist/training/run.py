"""A run from its settings to its results: every seed trained, yardsticks measured, all of it kept."""

from pathlib import Path
from typing import Any

from rich.console import Console

from tpnet_dist.config import Config
from tpnet_dist.config_keys import values_of
from tpnet_dist.ranks.world import World
from tpnet_dist.run_log import RunLog
from tpnet_dist.training.display import display_for
from tpnet_dist.training.edge_bank_figures import edge_bank_figures
from tpnet_dist.training.evaluation import Evaluator
from tpnet_dist.training.plots import plot_run
from tpnet_dist.training.results import print_results, results_of
from tpnet_dist.training.run_data import RunData
from tpnet_dist.training.run_folder import RunFolder
from tpnet_dist.training.trainer import SeedOutcome, SeedTrainer


def train(config: Config, run_dir: Path, world: World) -> dict[str, Any]:
    """Start the run, go on with it, or show what it came to; every rank gets the results."""
    run = world.on_first_rank(lambda: RunFolder.start(run_dir, config))
    display = display_for(world.rank)
    results = world.on_first_rank(run.results)
    if results is not None:
        display.say(f"{run_dir}: this run is finished; here is what it came to")
    else:
        data = RunData.open(config, world)
        world.require_agreement({**values_of(config), "log_id": data.log.manifest.log_id})
        display.say(f"{run_dir}: {_summary(data)}")
        log = RunLog(run.path) if world.rank == 0 else None
        outcomes: dict[int, SeedOutcome] = {}
        for seed in config.training.all_seeds():
            checkpoints = run.checkpoints(seed, keep=config.checkpoint.keep, log_id=data.log.manifest.log_id)
            trainer = SeedTrainer(config, data, seed, checkpoints=checkpoints, log=log, display=display)
            outcomes[seed] = trainer.train()
        results = results_of(outcomes, world)
        if config.evaluation.baseline == "edgebank":
            results["baselines"] = _baselines(trainer.evaluator)
        if log is not None:
            log.close()
            run.write_results(results)
            plot_run(run.path)
    if world.rank == 0:
        print_results(results, Console())
    return results


def _baselines(evaluator: Evaluator) -> dict[str, Any]:
    kinds = evaluator.config.evaluation.negatives
    by_part = {name: edge_bank_figures(evaluator, name, kinds) for name in ("val", "test")}
    return {bank: {name: by_part[name][bank] for name in by_part} for bank in by_part["test"]}


def _summary(data: RunData) -> str:
    split, world = data.split, data.world
    num_unseen = int(split.unseen_nodes.sum())
    return (
        f"{len(split.train):,} events to train on, {len(split.val):,} for validation, {len(split.test):,} "
        f"for test, {data.log.num_nodes:,} nodes, {num_unseen:,} of them unseen in training; "
        f"{world.num_ranks} rank{'s' * (world.num_ranks > 1)} on {world.device.type}"
    )
