"""Figures over seeds, made from the results of each seed, beside the paper's."""

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from benchmarks.finished_runs import SeedResult
from benchmarks.paper_ablations import paper_ablation
from benchmarks.variants import is_ablation, width_of
from tpnet_dist.config.paper_values import PaperValue, paper_value

SETTINGS = ("transductive", "inductive")
NEGATIVES = ("random", "historical", "inductive")
METRICS = ("ap", "auc")


@dataclass(frozen=True)
class Accuracy:
    """One figure of the test part."""

    dataset: str
    variant: str
    setting: str
    negatives: str
    metric: str
    mean: float
    std: float | None
    """The standard deviation over seeds; None for a single seed."""
    seeds: tuple[int, ...]
    epochs: int
    """The epochs that were run, by the seed that took most."""
    width: int | None
    paper: PaperValue | None

    @property
    def above_paper(self) -> float | None:
        return None if self.paper is None else self.mean - self.paper.mean

    def as_line(self) -> dict[str, Any]:
        """Return the row as a dictionary for the line that machines read."""
        known = vars(self) | {"seeds": list(self.seeds), "above_paper": self.above_paper}
        paper = vars(self.paper) if self.paper else None
        return known | {"paper": paper}


def accuracies(results: Iterable[SeedResult]) -> list[Accuracy]:
    """Return a row for each figure, in the order of the results; settings that have no events are left
    out."""
    groups: dict[tuple[str, str], list[SeedResult]] = {}
    for one in results:
        groups.setdefault((one.dataset, one.variant), []).append(one)
    return [row for group in groups.values() for row in _of_group(group)]


def _of_group(group: list[SeedResult]) -> Iterator[Accuracy]:
    first = group[0]
    for setting, negatives, metric in product(SETTINGS, NEGATIVES, METRICS):
        values = {
            one.seed: one.test[setting][negatives][metric]
            for one in group
            if metric in one.test.get(setting, {}).get(negatives, {})
        }
        if values:
            yield Accuracy(
                dataset=first.dataset,
                variant=first.variant,
                setting=setting,
                negatives=negatives,
                metric=metric,
                mean=statistics.fmean(values.values()),
                std=statistics.stdev(values.values()) if len(values) > 1 else None,
                seeds=tuple(values),
                epochs=max(one.epochs_run for one in group),
                width=first.width,
                paper=_paper(first, setting, negatives, metric),
            )


def _paper(one: SeedResult, setting: str, negatives: str, metric: str) -> PaperValue | None:
    """Return the paper's figure. The main tables are of TPNet, whatever the batching; of ablations the paper
    has one figure, of widths pictures only."""
    if width_of(one.variant) is not None:
        return None
    if not is_ablation(one.variant):
        return paper_value(one.dataset, setting, negatives, metric)
    is_told = (setting, negatives, metric) == ("transductive", "random", "ap")
    return paper_ablation(one.dataset, one.variant) if is_told else None


def only(
    rows: Iterable[Accuracy], setting: str, negatives: str = "random", metric: str = "ap"
) -> dict[tuple[str, str], Accuracy]:
    """Return the rows of this setting, kind of negatives and metric, by dataset and variant."""
    asked = (setting, negatives, metric)
    return {
        (row.dataset, row.variant): row for row in rows if (row.setting, row.negatives, row.metric) == asked
    }
