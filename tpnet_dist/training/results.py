"""What a finished run says: `results.json`, and the same as a table."""

from collections.abc import Mapping
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from tpnet_dist.config import Config
from tpnet_dist.peak_memory import peak_bytes
from tpnet_dist.ranks.gather import gather_varied
from tpnet_dist.ranks.world import World
from tpnet_dist.training.figures import Figures, mean_and_deviation, settings_and_kinds

_HEADINGS = {
    "ap": "AP",
    "auc": "AUC",
    "ap_whole": "AP\nwhole",
    "auc_whole": "AUC\nwhole",
    "mrr": "MRR",
    "hits@10": "Hits\n@10",
}
_BANKS = {"edgebank_unlimited": "Edge\nBank", "edgebank_window": "its\nwindow"}


def combined(by_seed: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    """Of one seed its results; of several their means, with standard deviations and each seed beside."""
    if len(by_seed) == 1:
        [results] = by_seed.values()
        return results
    mean, deviation = mean_and_deviation(list(by_seed.values()))
    return {**mean, "standard_deviation": deviation, "seeds": by_seed}


def facts_of(config: Config, world: World) -> dict[str, Any]:
    """How it was run; without batching and protocol figures cannot be compared."""
    by_rank = peak_memory_by_rank(world.device)
    return {
        "batching": config.data.batching,
        "protocol": config.evaluation.protocol,
        "device": world.device.type,
        "ranks": world.num_ranks,
        "peak_memory_bytes": max(by_rank),
        "peak_memory_bytes_by_rank": by_rank,
    }


def peak_memory_by_rank(device: torch.device) -> list[int]:
    """On the GPU what torch held, else what the process held."""
    mine = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_bytes()
    by_rank: list[int] = torch.cat(gather_varied(torch.tensor([mine], device=device))).tolist()
    return by_rank


def print_results(results: Mapping[str, Any], console: Console) -> None:
    """The test part, with the standard deviation of several seeds, and the yardsticks beside it."""
    figures: Figures = results["test"]
    deviations: Figures = results.get("standard_deviation", {}).get("test", {})
    banks = {name: heading for name, heading in _BANKS.items() if name in results.get("baselines", {})}
    shown = {metric for _, _, metrics in settings_and_kinds(figures) for metric in metrics}
    columns = [name for name in _HEADINGS if name in shown]
    how = (
        f" ({results['batching']} batching, {results['protocol']} protocol)" if "batching" in results else ""
    )
    title = f"Test events, by what they are told apart from{how}"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("events", no_wrap=True)
    table.add_column("negatives", no_wrap=True)
    for heading in [*(_HEADINGS[name] for name in columns), *banks.values()]:
        table.add_column(heading, justify="right", no_wrap=True)
    for setting, kind, metrics in settings_and_kinds(figures):
        spread = deviations.get(setting, {}).get(kind, {})
        cells = [_cell(metrics.get(name), spread.get(name)) for name in columns]
        # of random destinations that only compete for ranks EdgeBank has no figures
        beside = [results["baselines"][name]["test"][setting].get(kind, {}).get("ap") for name in banks]
        table.add_row(setting, kind, *cells, *map(_cell, beside))
    console.print(table)
    if banks:
        console.print(
            "EdgeBank: its AP with all edges seen so far, and with those of the latest time window."
        )
    if "inductive" not in figures:
        console.print("No inductive figures: no test event has a node unseen in training.")


def _cell(value: float | None, spread: float | None = None) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if spread is None else f"{value:.4f} ± {spread:.4f}"
