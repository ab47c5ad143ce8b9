"""Figures over seeds, made from the results of each seed, beside the paper's."""

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from benchmarks.finished_runs import SeedResult
from benchmarks.paper_ablations import paper_ablation
from benchmarks.variants import is_ablation, is_main
from tpnet_dist.config.paper_values import PaperValue, paper_value
from tpnet_dist.evaluation.results import Figures

SETTINGS = ("transductive", "inductive")
NEGATIVES = ("random", "historical", "inductive")
METRICS = ("ap", "auc")
HEURISTICS = {"edgebank": "EdgeBank", "recency": "recency", "popularity": "popularity"}
"""What learns nothing. EdgeBank is shown by the best of its modes, as in the paper."""
_STORED_AS = {"edgebank": "edgebank_best"}


@dataclass(frozen=True)
class Accuracy:
    """One figure of the test part."""

    dataset: str
    model: str
    """The model's name, or one of HEURISTICS."""
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
    val: float | None = None
    """The mean of the validation part."""
    decay: float | None = None
    """λ of the memory."""

    @property
    def is_heuristic(self) -> bool:
        return self.model in HEURISTICS

    @property
    def above_paper(self) -> float | None:
        return None if self.paper is None else self.mean - self.paper.mean

    def as_line(self) -> dict[str, Any]:
        """Return the row as a dictionary for the line that machines read."""
        known = vars(self) | {"seeds": list(self.seeds), "above_paper": self.above_paper}
        paper = vars(self.paper) if self.paper else None
        return known | {"paper": paper}


def accuracies(results: Iterable[SeedResult]) -> list[Accuracy]:
    """Return a row for each figure, in the order of the results, heuristics last in each dataset; settings
    that have no events are left out."""
    groups: dict[tuple[str, str], list[SeedResult]] = {}
    with_baselines: dict[str, SeedResult] = {}
    for one in results:
        groups.setdefault((one.dataset, one.variant), []).append(one)
        if one.baselines:
            with_baselines.setdefault(one.dataset, one)
    rows = [row for group in groups.values() for row in _of_group(group)]
    rows += [row for one in with_baselines.values() for row in _of_heuristics(one)]
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    return sorted(rows, key=lambda row: datasets.index(row.dataset))


def _of_heuristics(one: SeedResult) -> Iterator[Accuracy]:
    """Yield their rows, which are the same for every seed of every model."""
    settings = product(HEURISTICS.items(), SETTINGS, NEGATIVES, METRICS)
    for (name, title), setting, negatives, metric in settings:
        figures = one.baselines.get(_STORED_AS.get(name, name), {})
        value = _figure(figures, setting, negatives, metric)
        if value is not None:
            yield Accuracy(
                dataset=one.dataset,
                model=name,
                variant=title,
                setting=setting,
                negatives=negatives,
                metric=metric,
                mean=value,
                std=None,
                seeds=(),
                epochs=0,
                width=None,
                paper=paper_value(one.dataset, setting, negatives, metric, model=name),
            )


def _of_group(group: list[SeedResult]) -> Iterator[Accuracy]:
    first = group[0]
    for setting, negatives, metric in product(SETTINGS, NEGATIVES, METRICS):
        found = ((one.seed, _figure(one.test, setting, negatives, metric)) for one in group)
        values = {seed: value for seed, value in found if value is not None}
        of_val = [
            value
            for one in group
            if one.seed in values and (value := _figure(one.val, setting, negatives, metric)) is not None
        ]
        if values:
            yield Accuracy(
                dataset=first.dataset,
                model=first.model,
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
                val=statistics.fmean(of_val) if len(of_val) == len(values) else None,
                decay=first.decay,
            )


def _figure(figures: Figures, setting: str, negatives: str, metric: str) -> float | None:
    return figures.get(setting, {}).get(negatives, {}).get(metric)


def _paper(one: SeedResult, setting: str, negatives: str, metric: str) -> PaperValue | None:
    """Return the paper's figure. The main tables are of models, whatever the batching; of ablations the paper
    has one figure, of widths pictures only, of λ nothing but the best."""
    if is_main(one.variant):
        return paper_value(one.dataset, setting, negatives, metric, model=one.model)
    if not is_ablation(one.variant):
        return None
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
