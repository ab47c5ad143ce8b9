"""Tables of accuracies: each model beside the paper, ablations, widths, λ, and how the runs were made."""

from collections.abc import Iterable

from benchmarks.accuracy_rows import METRICS, NEGATIVES, SETTINGS, Accuracy, only
from benchmarks.finished_runs import SeedResult
from benchmarks.model_sheets import models_sheet, ranks_sheet
from benchmarks.sheet import Sheet, of_paper, with_spread
from benchmarks.study_logs import dataset_order, title_of
from benchmarks.variants import WHOLE, decay_of, is_ablation, is_main, width_of


def sheets(results: list[SeedResult], rows: list[Accuracy]) -> list[Sheet]:
    """Return those sheets that there is something to say in."""
    made = [
        *(models_sheet(rows, metric) for metric in METRICS),
        *(ranks_sheet(rows, metric) for metric in METRICS),
        main_sheet(rows),
        ablation_sheet(rows),
        width_sheet(rows),
        decay_sheet(rows),
        run_sheet(results),
    ]
    return [sheet for sheet in made if sheet.rows]


def main_sheet(rows: list[Accuracy]) -> Sheet:
    shown = [row for row in rows if is_main(row.variant)]
    cells = {
        (row.dataset, row.variant, row.setting, row.negatives, row.metric): _beside_paper(row)
        for row in shown
    }
    groups = dict.fromkeys((row.dataset, row.variant) for row in shown)
    lines = [
        (
            *(title_of(group[0]), group[1], setting, negatives),
            *(
                cell
                for metric in METRICS
                for cell in cells.get((*group, setting, negatives, metric), [""] * 3)
            ),
        )
        for group in groups
        for setting in SETTINGS
        for negatives in NEGATIVES
        if (*group, setting, negatives, METRICS[0]) in cells
    ]
    figures = ("AP", "the paper", "difference", "AUC", "the paper", "difference")
    headings = ("dataset", "model", "events", "negatives", *figures)
    return Sheet("Test part, beside the paper", headings, 4, lines)


def ablation_sheet(rows: list[Accuracy]) -> Sheet:
    transductive, inductive = (only(rows, setting) for setting in SETTINGS)
    lines = []
    for (dataset, variant), row in transductive.items():
        whole = transductive.get((dataset, WHOLE))
        if is_ablation(variant) or (variant == WHOLE and _has_ablations(rows, dataset)):
            difference = f"{row.mean - whole.mean:+.4f}" if whole and variant != WHOLE else ""
            beside = inductive.get((dataset, variant))
            figures = (with_spread(row), of_paper(row.paper), difference, with_spread(beside))
            lines.append((title_of(dataset), variant, *figures))
    headings = ("dataset", "model", "transductive", "the paper", f"against {WHOLE}", "inductive")
    return Sheet("What each part brings: test AP, random negatives", headings, 2, lines)


def width_sheet(rows: list[Accuracy]) -> Sheet:
    transductive, inductive = (only(rows, setting) for setting in SETTINGS)
    lines = [
        (title_of(dataset), str(row.width), with_spread(row), with_spread(inductive.get((dataset, variant))))
        for (dataset, variant), row in transductive.items()
        if width_of(variant) is not None
    ]
    headings = ("dataset", "width", "transductive", "inductive")
    return Sheet("Width of the projections: test AP, random negatives", headings, 1, lines)


def decay_sheet(rows: list[Accuracy]) -> Sheet:
    """Return the table of λ; the preset's stands among the others, since it is the model as it is."""
    transductive, inductive = (only(rows, setting) for setting in SETTINGS)
    swept = {dataset for dataset, variant in transductive if decay_of(variant) is not None}
    found = [
        row
        for (dataset, variant), row in transductive.items()
        if dataset in swept and row.decay is not None and (decay_of(variant) or variant == WHOLE)
    ]
    lines = [
        (
            title_of(row.dataset),
            f"{row.decay:g}" + " (the preset's)" * (row.variant == WHOLE),
            "" if row.val is None else f"{row.val:.4f}",
            with_spread(row),
            with_spread(inductive.get((row.dataset, row.variant))),
        )
        for row in sorted(found, key=lambda row: (dataset_order(row.dataset), row.decay or 0.0))
    ]
    headings = ("dataset", "λ per second", "validation", "test", "test, inductive")
    return Sheet("How fast walks fade: AP, random negatives", headings, 2, lines)


def run_sheet(results: list[SeedResult]) -> Sheet:
    groups: dict[tuple[str, ...], list[SeedResult]] = {}
    for one in results:
        facts = (title_of(one.dataset), one.variant, one.batching, one.protocol, one.differences)
        groups.setdefault(facts, []).append(one)
    lines = [
        (
            *facts,
            _listed(one.seed for one in group),
            _listed(one.ranks for one in group),
            _listed(one.epochs_run for one in group) + ", to go on" * any(one.under_way for one in group),
            _listed(one.best_epoch for one in group),
        )
        for facts, group in groups.items()
    ]
    texts = ("dataset", "model", "batching", "protocol", "log differs in")
    return Sheet("The runs", (*texts, "seeds", "ranks", "epochs run", "best epoch"), len(texts), lines)


def _beside_paper(row: Accuracy) -> list[str]:
    difference = "" if row.above_paper is None else f"{row.above_paper:+.4f}"
    return [with_spread(row), of_paper(row.paper), difference]


def _has_ablations(rows: list[Accuracy], dataset: str) -> bool:
    return any(row.dataset == dataset and is_ablation(row.variant) for row in rows)


def _listed(numbers: Iterable[int]) -> str:
    """Return the numbers as text; a single one where all are the same."""
    found = list(numbers)
    return ", ".join(map(str, found if len(set(found)) > 1 else found[:1]))
