"""What a finished run says: `results.json`, and the same as a table."""

import resource
from collections.abc import Mapping
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from tpnet_dist.ranks.gather import gather_varied
from tpnet_dist.ranks.world import World
from tpnet_dist.training.figures import Figures, mean_and_deviation, settings_and_kinds
from tpnet_dist.training.trainer import SeedOutcome

COLUMNS = ("ap", "auc", "ap_whole", "auc_whole", "mrr", "hits@10")


def results_of(outcomes: Mapping[int, SeedOutcome], world: World) -> dict[str, Any]:
    """Of one seed its figures; of several their means, with standard deviations and each seed beside."""
    by_seed = {seed: _of_seed(outcome) for seed, outcome in outcomes.items()}
    results: dict[str, Any]
    if len(by_seed) == 1:
        [results] = by_seed.values()
    else:
        mean, deviation = mean_and_deviation(list(by_seed.values()))
        results = {**mean, "standard_deviation": deviation, "seeds": by_seed}
        for name in ("best_epoch", "epochs_run"):
            results[name] = [of_seed[name] for of_seed in by_seed.values()]
    return {**results, "ranks": world.num_ranks, "peak_memory_bytes": peak_memory_bytes(world.device)}


def _of_seed(outcome: SeedOutcome) -> dict[str, Any]:
    progress = outcome.progress
    return {
        "test": outcome.test,
        "val": outcome.val,
        "best_epoch": progress.best_epoch + 1,
        "epochs_run": progress.epoch,
        "events_per_second": {
            "train": progress.events / progress.seconds if progress.seconds else 0.0,
            "score": outcome.score_events_per_second,
        },
    }


def peak_memory_bytes(device: torch.device) -> int:
    """Of the rank that took most: on the GPU what torch held, else what the process held."""
    if device.type == "cuda":
        mine = torch.cuda.max_memory_allocated(device)
    else:
        mine = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return int(torch.cat(gather_varied(torch.tensor([mine], device=device))).max())


def print_results(results: Mapping[str, Any], console: Console) -> None:
    """The test part, beside it the standard deviation of several seeds, and the yardsticks."""
    table = Table(title="Test part", title_justify="left")
    for heading in ("", "events", "negatives"):
        table.add_column(heading)
    for heading in ("AP", "AUC", "AP whole", "AUC whole", "MRR", "Hits@10"):
        table.add_column(heading, justify="right")
    deviations: Figures = results.get("standard_deviation", {}).get("test", {})
    _add_rows(table, "TPNet", results["test"], deviations)
    for name, parts in results.get("baselines", {}).items():
        _add_rows(table, name.replace("_", ", "), parts["test"], {})
    console.print(table)
    if "inductive" not in results["test"]:
        console.print("No inductive figures: no test event has a node unseen in training.")


def _add_rows(table: Table, name: str, figures: Figures, deviations: Figures) -> None:
    for setting, kind, metrics in settings_and_kinds(figures):
        spread = deviations.get(setting, {}).get(kind, {})
        cells = [
            f"{metrics[column]:.4f}" + (f" ± {spread[column]:.4f}" if column in spread else "")
            if column in metrics
            else ""
            for column in COLUMNS
        ]
        table.add_row(name, setting, kind, *cells)
        name = ""
    table.add_section()
