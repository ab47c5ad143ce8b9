"""Runs that differ in nothing but the seed make one series, whose figures have a mean and a deviation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import mean, stdev

from tpnet_dist.config.keys import changes_no_result, values_of
from tpnet_dist.config.paper_values import PaperValue, paper_value
from tpnet_dist.config.schema import ModelConfig
from tpnet_dist.evaluation.results import Figures, Results, SeedResults, settings_and_kinds
from tpnet_dist.report.numbers import GAP
from tpnet_dist.report.run import Run

SETTINGS = ("transductive", "inductive")
KINDS = ("random", "historical", "inductive")
SEED_KEYS = {"training.seed", "training.seeds"}


@dataclass(frozen=True)
class Spread:
    """Holds mean and deviation of a figure over seeds."""

    mean: float
    std: float | None
    """The standard deviation over seeds; None for one seed."""
    count: int


@dataclass(frozen=True)
class Series:
    """The runs of the series, of which there is at least one."""

    runs: tuple[Run, ...]

    @property
    def name(self) -> str:
        first, *others = (run.name for run in self.runs)
        return f"{first} and {len(others)} more" if others else first

    @property
    def model(self) -> type[ModelConfig]:
        """Return the settings of its model, whose name and title they have."""
        return type(self.runs[0].config.model)

    @property
    def seeds(self) -> list[int]:
        """Return the seeds that have results."""
        return [seed for run in self.runs for seed in run.by_seed()]

    @property
    def unfinished_seeds(self) -> list[int]:
        return [
            seed for run in self.runs for seed in run.config.training.all_seeds() if seed not in run.by_seed()
        ]

    def figure(self, part: str, setting: str, kind: str, metric: str) -> Spread | None:
        """Return a figure over seeds; None where no seed has it."""
        by_part = ({"val": results.val, "test": results.test}[part] for results in self._seed_results())
        return spread(
            [figures[setting][kind][metric] for figures in by_part if has(figures, setting, kind, metric)]
        )

    def bank(self, bank: str, setting: str, kind: str, metric: str) -> float | None:
        """Return EdgeBank's figure for test events, the same for every seed."""
        for run in self.runs:
            figures = run.results.baselines.get(bank, {}).get("test", {}) if run.results else {}
            if has(figures, setting, kind, metric):
                return figures[setting][kind][metric]
        return None

    def paper(self, dataset: str, setting: str, kind: str, metric: str) -> PaperValue | None:
        """Return the paper's figure of its model; None where the paper has none."""
        return paper_value(dataset, setting, kind, metric, model=self.model.name)

    def mean_of(self, fact: Callable[[Results], float | None]) -> float | None:
        """Return the mean over its finished runs; None where none says so."""
        found = spread(
            [value for run in self.runs if run.results and (value := fact(run.results)) is not None]
        )
        return found.mean if found else None

    def metrics(self) -> set[str]:
        """Return the metrics that the test events have."""
        return {
            metric
            for results in self._seed_results()
            for _, _, metrics in settings_and_kinds(results.test)
            for metric in metrics
        }

    def _seed_results(self) -> list[SeedResults]:
        return [results for run in self.runs for results in run.by_seed().values()]


def spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    return Spread(mean(values), stdev(values) if len(values) > 1 else None, len(values))


def has(figures: Figures, setting: str, kind: str, metric: str) -> bool:
    return metric in figures.get(setting, {}).get(kind, {})


def training_speed(results: Results) -> float | None:
    """Return events per second, all ranks together."""
    speed = results.mean.events_per_second
    return speed.train if speed else None


def scoring_speed(results: Results) -> float | None:
    """Return events per second, all ranks together."""
    speed = results.mean.events_per_second
    return speed.score if speed else None


def series_of(runs: Sequence[Run]) -> list[Series]:
    """Return series in the order of their first runs. A seed that a series has already belongs to another: it
    is the same run again."""
    found: list[Series] = []
    for run in runs:
        for position, series in enumerate(found):
            taken = {*series.seeds, *series.unfinished_seeds}
            is_new = not taken & set(run.config.training.all_seeds())
            if is_new and settings_of(series.runs[0]) == settings_of(run):
                found[position] = Series((*series.runs, run))
                break
        else:
            found.append(Series((run,)))
    return found


def settings_of(run: Run) -> dict[str, object]:
    """Return all that results depend on, but the seed; a log whose id is known goes by it, wherever it
    lies."""
    found = {
        key: value
        for key, value in values_of(run.config).items()
        if key not in SEED_KEYS and not changes_no_result(key)
    }
    log_id = _log_id(run)
    return found if log_id is None else {**found, "data.folder": log_id}


def have_one_log(all_series: Sequence[Series]) -> bool:
    """Return whether all were trained on the same events in the same batches, so that a baseline is one for
    all."""
    keys = ("data.folder", "data.batching")
    return len({tuple(settings_of(each.runs[0])[key] for key in keys) for each in all_series}) == 1


def differing_settings(all_series: Sequence[Series]) -> dict[str, list[object]]:
    """Return the keys in which series differ, with the value of each; models have settings of their own."""
    firsts = [series.runs[0] for series in all_series]
    settings = [settings_of(run) for run in firsts]
    keys = dict.fromkeys(chain.from_iterable(settings))
    return {
        key: _shown(key, firsts) for key in keys if len({repr(each.get(key, GAP)) for each in settings}) > 1
    }


def _log_id(run: Run) -> str | None:
    """Return the id of the log it was trained on: its folder may hold another log by now."""
    return run.log_id or (run.log.manifest.log_id if run.log.manifest else None)


def _shown(key: str, runs: Sequence[Run]) -> list[object]:
    """Return the values of a setting; logs that lie, or lay, in one folder are distinguished by their ids."""
    values = [values_of(run.config).get(key, GAP) for run in runs]
    if len(set(map(repr, values))) > 1:
        return values
    return [f"{value}, log {_log_id(run) or 'unknown'}" for value, run in zip(values, runs, strict=True)]
