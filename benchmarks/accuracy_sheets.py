"""Tables of accuracies, laid out once and shown twice: on a terminal and as Markdown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table

from benchmarks.accuracy_rows import METRICS, NEGATIVES, SETTINGS, Accuracy, only
from benchmarks.finished_runs import SeedResult
from benchmarks.study_logs import title_of
from benchmarks.variants import WHOLE, is_ablation, width_of
from tpnet_dist.config.paper_values import PaperValue


@dataclass(frozen=True)
class Sheet:
    """A table; its first columns are text, the others numbers."""

    title: str
    headings: tuple[str, ...]
    num_text_columns: int
    rows: Sequence[tuple[str, ...]]

    def for_terminal(self) -> Table:
        table = Table(title=self.title, title_justify="left")
        for number, heading in enumerate(self.headings):
            table.add_column(heading, justify="left" if number < self.num_text_columns else "right")
        for row in self.rows:
            table.add_row(*row)
        return table

    def as_markdown(self) -> str:
        rules = ["---"] * self.num_text_columns + ["---:"] * (len(self.headings) - self.num_text_columns)
        lines = [self.headings, tuple(rules), *self.rows]
        return f"## {self.title}\n\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def sheets(results: list[SeedResult], rows: list[Accuracy]) -> list[Sheet]:
    """Return those sheets that there is something to say in."""
    made = [main_sheet(rows), ablation_sheet(rows), width_sheet(rows), run_sheet(results)]
    return [sheet for sheet in made if sheet.rows]


def main_sheet(rows: list[Accuracy]) -> Sheet:
    shown = [row for row in rows if not is_ablation(row.variant) and width_of(row.variant) is None]
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
            _listed(one.epochs_run for one in group),
            _listed(one.best_epoch for one in group),
        )
        for facts, group in groups.items()
    ]
    texts = ("dataset", "model", "batching", "protocol", "log differs in")
    return Sheet("The runs", (*texts, "seeds", "ranks", "epochs run", "best epoch"), len(texts), lines)


def with_spread(row: Accuracy | None) -> str:
    if row is None:
        return ""
    return f"{row.mean:.4f}" if row.std is None else f"{row.mean:.4f} ± {row.std:.4f}"


def of_paper(value: PaperValue | None) -> str:
    return "" if value is None else f"{value.mean:.4f} ± {value.std:.4f}"


def _beside_paper(row: Accuracy) -> list[str]:
    difference = "" if row.above_paper is None else f"{row.above_paper:+.4f}"
    return [with_spread(row), of_paper(row.paper), difference]


def _has_ablations(rows: list[Accuracy], dataset: str) -> bool:
    return any(row.dataset == dataset and is_ablation(row.variant) for row in rows)


def _listed(numbers: Iterable[int]) -> str:
    """Return the numbers as text; a single one where all are the same."""
    found = list(numbers)
    return ", ".join(map(str, found if len(set(found)) > 1 else found[:1]))
