"""What a finished run says: `results.json`, and the same as a table."""

from collections.abc import Mapping
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.gather import gather_varied
from tpnet_dist.distributed.peak_memory import peak_bytes
from tpnet_dist.distributed.world import World
from tpnet_dist.evaluation.tables import Figures, mean_and_deviation, settings_and_kinds

_CLASSIFYING = {"ap": "AP", "auc": "AUC", "ap_whole": "AP\nwhole", "auc_whole": "AUC\nwhole"}
_RANKING = {"mrr": "MRR", "hits@10": "Hits\n@10"}
_BANKS = {"edgebank_unlimited": "Edge\nBank", "edgebank_window": "its\nwindow"}
_UNBOUNDED = 10_000

_Column = tuple[str, list[str]]
"""Heading and cells."""


def combined(by_seed: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    """Of one seed its results; of several their means, with standard deviations and each seed beside."""
    if len(by_seed) == 1:
        [results] = by_seed.values()
        return results
    mean, deviation = mean_and_deviation(list(by_seed.values()))
    return {**mean, "standard_deviation": deviation, "seeds": by_seed}


def facts_of(config: Config, world: World) -> dict[str, Any]:
    """How it was run; without batching, protocol and update figures cannot be compared."""
    by_rank = peak_memory_by_rank(world.device)
    return {
        "batching": config.data.batching,
        "protocol": config.evaluation.protocol,
        "update": config.evaluation.update,
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
    _print_columns(
        f"Test events, by what they are told apart from{_how(results)}",
        [(setting, kind) for setting, kind, _ in settings_and_kinds(figures)],
        [_figure_columns(results, _CLASSIFYING), _figure_columns(results, _RANKING), _bank_columns(results)],
        console,
    )
    if results.get("baselines"):
        console.print(
            "EdgeBank: its AP with all edges seen so far, and with those of the latest time window."
        )
    if "inductive" not in figures:
        console.print("No inductive figures: no test event has a node unseen in training.")


def _how(results: Mapping[str, Any]) -> str:
    """What figures depend on; a run of an earlier version does not say whether its memory stood still."""
    if "batching" not in results:
        return ""
    frozen = "" if results.get("update", True) else ", memory still after training"
    return f" ({results['batching']} batching, {results['protocol']} protocol{frozen})"


def _figure_columns(results: Mapping[str, Any], headings: Mapping[str, str]) -> list[_Column]:
    """Of those metrics that there are."""
    rows = list(settings_and_kinds(results["test"]))
    deviations: Figures = results.get("standard_deviation", {}).get("test", {})
    spreads = [deviations.get(setting, {}).get(kind, {}) for setting, kind, _ in rows]
    return [
        (
            heading,
            [_cell(row[2].get(name), spread.get(name)) for row, spread in zip(rows, spreads, strict=True)],
        )
        for name, heading in headings.items()
        if any(name in metrics for _, _, metrics in rows)
    ]


def _bank_columns(results: Mapping[str, Any]) -> list[_Column]:
    rows, banks = list(settings_and_kinds(results["test"])), results.get("baselines", {})
    return [
        # of random destinations that only compete for ranks EdgeBank has no figures
        (heading, [_cell(banks[name]["test"][setting].get(kind, {}).get("ap")) for setting, kind, _ in rows])
        for name, heading in _BANKS.items()
        if name in banks
    ]


def _print_columns(
    title: str, rows: list[tuple[str, str]], groups: list[list[_Column]], console: Console
) -> None:
    """In one table, or in several beneath each other where the console is too narrow for all groups."""
    shown: list[_Column] = []
    for group in filter(None, groups):
        together = _table(title, rows, shown + group, console)
        if shown and (together.width or 0) > console.width:
            console.print(_table(title, rows, shown, console), "", crop=False)
            title, shown = "", []
        shown = shown + group
    console.print(_table(title, rows, shown, console), crop=False)


def _table(title: str, rows: list[tuple[str, str]], columns: list[_Column], console: Console) -> Table:
    """As wide as its cells, on any console: none is cut."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("events", no_wrap=True)
    table.add_column("negatives", no_wrap=True)
    for heading, _ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for number, row in enumerate(rows):
        table.add_row(*row, *(cells[number] for _, cells in columns))
    table.width = console.measure(table, options=console.options.update_width(_UNBOUNDED)).maximum
    return table


def _cell(value: float | None, spread: float | None = None) -> str:
    if value is None:
        return ""
    # without spaces four such columns fit the 80 places of an output that is no terminal
    return f"{value:.4f}" if spread is None else f"{value:.4f}±{spread:.4f}"
