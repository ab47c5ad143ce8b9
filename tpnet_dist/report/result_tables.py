"""Test figures in tables: six settings beside the paper and EdgeBank; ranking; and every figure there is."""

from collections.abc import Sequence

from tpnet_dist.report.blocks import Cell, Folded, Pair, Rows, Table
from tpnet_dist.report.numbers import difference, figure
from tpnet_dist.report.series import KINDS, SETTINGS, Series, Spread

RANKING = {"mrr": "MRR", "hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10"}
WHOLE = {"ap": "AP", "auc": "AUC", "ap_whole": "AP, whole", "auc_whole": "AUC, whole"}
PARTS = {"test": "Test", "val": "Validation"}
BANKS = {
    "edgebank_unlimited": "Edge\u200bBank",
    "edgebank_window": "in its window",
    "edgebank_best": "its best mode",
    "recency": "recency",
    "popularity": "popu\u200blarity",
}
"""The headings of baselines, which can break where a screen is narrow."""


def six_settings(series: Series, dataset: str | None) -> Pair | None:
    """Return AP and AUC, a table each; columns that would be empty are left out."""
    if not series.metrics() & {"ap", "auc"}:
        return None
    return Pair([_six_settings(series, dataset, metric) for metric in ("ap", "auc")])


def _six_settings(series: Series, dataset: str | None, metric: str) -> Table:
    banks = [bank for bank in BANKS if _has_bank(series, bank, metric)]
    head = ["negatives", "this run"]
    head += ["paper", "vs paper"] if dataset else []
    head += [BANKS[bank] for bank in banks]
    groups: list[tuple[str, Rows]] = []
    for setting in SETTINGS:
        rows: list[list[Cell]] = [
            [kind, *_own_and_paper(value, series, setting, kind, metric, dataset)]
            + [figure(series.bank(bank, setting, kind, metric)) for bank in banks]
            for kind in KINDS
            if (value := series.figure("test", setting, kind, metric))
        ]
        groups.append(
            (f"{setting.capitalize()} events", rows or [["no such events"] + [""] * (len(head) - 1)])
        )
    return Table(f"Test {metric.upper()}", head, groups)


def _own_and_paper(
    value: Spread, series: Series, setting: str, kind: str, metric: str, dataset: str | None
) -> list[Cell]:
    cells: list[Cell] = [figure(value.mean, value.std)]
    if dataset:
        paper = series.paper(dataset, setting, kind, metric)
        cells += [figure(paper.mean, paper.std), difference(value.mean - paper.mean)] if paper else ["", ""]
    return cells


def _has_bank(series: Series, bank: str, metric: str) -> bool:
    return any(series.bank(bank, setting, kind, metric) is not None for setting in SETTINGS for kind in KINDS)


def ranking(series: Series, competitors: int) -> Table | None:
    """Return MRR and Hits, where events were ranked among random destinations."""
    shown = {name: title for name, title in RANKING.items() if name in series.metrics()}
    if not shown:
        return None
    caption = "Rank of an event" + (f" among {competitors:,} random destinations" if competitors else "")
    return Table(caption, ["events", *shown.values()], _by_part(series, ("random",), shown))


def every_figure(series: Series) -> Folded | None:
    shown = {name: title for name, title in WHOLE.items() if name in series.metrics()}
    if not shown:
        return None
    caption = "As the mean over batches, and over the whole part at once"
    return Folded(
        "Validation too, and figures over whole parts",
        Table(caption, ["events, negatives", *shown.values()], _by_part(series, KINDS, shown)),
    )


def _by_part(series: Series, kinds: Sequence[str], metrics: dict[str, str]) -> list[tuple[str, Rows]]:
    groups: list[tuple[str, Rows]] = []
    for part, title in PARTS.items():
        rows: list[list[Cell]] = [
            [
                setting if len(kinds) == 1 else f"{setting}, {kind}",
                *_cells(series, part, setting, kind, metrics),
            ]
            for setting in SETTINGS
            for kind in kinds
            if any(series.figure(part, setting, kind, metric) for metric in metrics)
        ]
        if rows:
            groups.append((title, rows))
    return groups


def _cells(series: Series, part: str, setting: str, kind: str, metrics: dict[str, str]) -> list[Cell]:
    found = [series.figure(part, setting, kind, metric) for metric in metrics]
    return [figure(value.mean, value.std) if value else figure(None) for value in found]
