"""Test figures of a finished run as a table, with the baselines beside them."""

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from tpnet_dist.evaluation.results import Conditions, Results, settings_and_kinds

_CLASSIFYING = {"ap": "AP", "auc": "AUC", "ap_whole": "AP\nwhole", "auc_whole": "AUC\nwhole"}
_RANKING = {"mrr": "MRR", "hits@10": "Hits\n@10"}
_BANKS = {
    "edgebank_unlimited": "Edge\nBank",
    "edgebank_window": "its\nwindow",
    "edgebank_best": "its\nbest",
    "recency": "rec-\nency",
    "popularity": "popu-\nlarity",
}
_UNBOUNDED = 10_000

_Column = tuple[str, list[str]]
"""The heading of a column and its cells."""


def print_results(results: Results, console: Console) -> None:
    """Print the test part, with the standard deviation of several seeds, and the baselines beside it."""
    figures = results.mean.test
    _print_columns(
        f"Test events, by what they are scored against ({_how(results.conditions)})",
        [(setting, kind) for setting, kind, _ in settings_and_kinds(figures)],
        [_figure_columns(results, _CLASSIFYING), _figure_columns(results, _RANKING), _bank_columns(results)],
        console,
    )
    if results.mean.before is not None:
        before = results.mean.before["test"]
        shown = [f"{_cell(each['ap'])} {s}, {kind}" for s, kind, each in settings_and_kinds(before)]
        console.print(f"Before, with the weights this run began with: AP {'; '.join(shown)}.")
    if any(name.startswith("edgebank") for name in results.baselines):
        console.print(
            "EdgeBank: its AP with all edges seen so far, with those of the latest time window, and of the "
            "best of its four modes."
        )
    if "inductive" not in figures:
        console.print("No inductive figures: no test event has a node unseen in training.")


def _how(conditions: Conditions) -> str:
    """Return what figures depend on, as text."""
    frozen = "" if conditions.update else ", memory still after training"
    return f"{conditions.batching} batching, {conditions.protocol} protocol{frozen}"


def _figure_columns(results: Results, headings: Mapping[str, str]) -> list[_Column]:
    """Return a column for each metric that there is."""
    rows = list(settings_and_kinds(results.mean.test))
    deviations = results.deviation.test if results.deviation else {}
    spreads = [deviations.get(setting, {}).get(kind, {}) for setting, kind, _ in rows]
    return [
        (
            heading,
            [_cell(row[2].get(name), spread.get(name)) for row, spread in zip(rows, spreads, strict=True)],
        )
        for name, heading in headings.items()
        if any(name in metrics for _, _, metrics in rows)
    ]


def _bank_columns(results: Results) -> list[_Column]:
    rows, banks = list(settings_and_kinds(results.mean.test)), results.baselines
    return [
        # of random destinations that only compete for ranks EdgeBank has no figures
        (
            heading,
            [
                _cell(banks[name]["test"].get(setting, {}).get(kind, {}).get("ap"))
                for setting, kind, _ in rows
            ],
        )
        for name, heading in _BANKS.items()
        if "test" in banks.get(name, {})
    ]


def _print_columns(
    title: str, rows: list[tuple[str, str]], groups: list[list[_Column]], console: Console
) -> None:
    """Print one table, or several beneath each other where the console is too narrow for all groups."""
    shown: list[_Column] = []
    for group in filter(None, groups):
        together = _table(title, rows, shown + group, console)
        if shown and (together.width or 0) > console.width:
            console.print(_table(title, rows, shown, console), "", crop=False)
            title, shown = "", []
        shown = shown + group
    console.print(_table(title, rows, shown, console), crop=False)


def _table(title: str, rows: list[tuple[str, str]], columns: list[_Column], console: Console) -> Table:
    """Return a table as wide as its cells on any console, so that none is cut."""
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
