"""Models beside one another: a column for each, the paper's figure in brackets; and their average ranks."""

from collections.abc import Iterable, Sequence
from itertools import product
from statistics import fmean

from benchmarks.accuracy_rows import NEGATIVES, SETTINGS, Accuracy
from benchmarks.sheet import Sheet, with_spread
from benchmarks.study_logs import title_of
from benchmarks.variants import is_main

TEXT_COLUMNS = ("dataset", "events", "negatives")
Row = dict[str, Accuracy]
"""A line of the table, by variant."""


def models_sheet(rows: Iterable[Accuracy], metric: str) -> Sheet:
    """Return the table of models side by side; it is empty where there is but one column."""
    table = _table(rows, metric)
    variants = _variants(table.values())
    lines = [
        (title_of(dataset), setting, negatives, *(_cell(row.get(variant)) for variant in variants))
        for (dataset, setting, negatives), row in table.items()
        if len(variants) > 1
    ]
    return Sheet(f"Test {metric.upper()} of all models (the paper's)", (*TEXT_COLUMNS, *variants), 3, lines)


def ranks_sheet(rows: Iterable[Accuracy], metric: str) -> Sheet:
    """Return ranks among the columns that the paper has, over the datasets that have all of these."""
    table, lines = _table(rows, metric), []
    columns = _variants(table.values())
    for setting, negatives in product(SETTINGS, NEGATIVES):
        group = [row for key, row in table.items() if key[1:] == (setting, negatives)]
        ranked = [name for name in columns if any(name in row and row[name].paper for row in group)]
        whole = [row for row in group if all(name in row and row[name].paper for name in ranked)]
        if len(ranked) > 1 and whole:
            ours = average_ranks([{name: row[name].mean for name in ranked} for row in whole])
            papers = average_ranks([{name: _paper_mean(row[name]) for name in ranked} for row in whole])
            cells = (f"{ours[name]:.2f} ({papers[name]:.2f})" if name in ours else "" for name in columns)
            lines.append((setting, negatives, str(len(whole)), *cells))
    headings = ("events", "negatives", "datasets", *columns)
    return Sheet(f"Average rank by test {metric.upper()} (by the paper's)", headings, 2, lines)


def average_ranks(values: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return average ranks: the best has rank 1, equals share the better rank, as in the paper."""
    return {
        name: fmean(1 + sum(other > row[name] for other in row.values()) for row in values)
        for name in values[0]
    }


def _paper_mean(row: Accuracy) -> float:
    assert row.paper is not None
    return row.paper.mean


def _table(rows: Iterable[Accuracy], metric: str) -> dict[tuple[str, str, str], Row]:
    """Return rows by dataset, setting and negatives; what is no study is a column."""
    table: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        if row.metric == metric and is_main(row.variant):
            table.setdefault((row.dataset, row.setting, row.negatives), {})[row.variant] = row
    return table


def _variants(rows: Iterable[Row]) -> list[str]:
    """Return the columns: models first, heuristics last."""
    found = dict.fromkeys(variant for row in rows for variant in row)
    heuristic = {name for row in rows for name, one in row.items() if one.is_heuristic}
    return sorted(found, key=lambda name: name in heuristic)


def _cell(row: Accuracy | None) -> str:
    if row is None:
        return ""
    return with_spread(row) + (f" ({row.paper.mean:.4f})" if row.paper else "")
