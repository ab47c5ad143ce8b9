"""Several runs beside one another: figures by series, what differs in their settings, curves together."""

from collections.abc import Callable, Sequence

from tpnet_dist.evaluation.results import Results
from tpnet_dist.report.blocks import Cell, Charts, Paragraph, Rows, Section, Table, Text, code, present
from tpnet_dist.report.numbers import GAP, amount, figure, setting_value, size
from tpnet_dist.report.result_charts import result_chart
from tpnet_dist.report.series import (
    KINDS,
    SETTINGS,
    Series,
    differing_settings,
    scoring_speed,
    training_speed,
)
from tpnet_dist.report.series_charts import speed_chart, validation_chart


def comparison(all_series: Sequence[Series], dataset: str | None) -> Section:
    """Compare series. `dataset`: the paper's, if all were trained on the same."""
    drawn = [
        result_chart(all_series, "ap", dataset),
        result_chart(all_series, "auc", dataset),
        validation_chart(all_series),
        speed_chart(all_series),
    ]
    blocks = present(
        _what_is_compared(all_series),
        Charts([chart for chart in drawn if chart is not None]),
        _figures(all_series, "ap"),
        _figures(all_series, "auc"),
        _costs(all_series),
        _differences(all_series),
    )
    return Section("Comparison", blocks, id="comparison")


def _what_is_compared(all_series: Sequence[Series]) -> Paragraph:
    several = [series for series in all_series if len(series.seeds) > 1]
    said = (
        "Runs that differ in nothing but the seed are taken together: mean ± standard deviation. "
        if several
        else ""
    )
    said += "Figures compare only where data, batching and protocol are the same."
    return Paragraph([said])


def _figures(all_series: Sequence[Series], metric: str) -> Table | None:
    """Return a table of settings down, series across: that is what fits a narrow screen longest."""
    groups: list[tuple[str, Rows]] = []
    for setting in SETTINGS:
        rows: list[list[Cell]] = [
            [kind, *(_cell(series, setting, kind, metric) for series in all_series)]
            for kind in KINDS
            if any(series.figure("test", setting, kind, metric) for series in all_series)
        ]
        if rows:
            groups.append((f"{setting.capitalize()} events", rows))
    if not groups:
        return None
    return Table(f"Test {metric.upper()}", _heads("negatives", all_series), groups, "compared")


def _cell(series: Series, setting: str, kind: str, metric: str) -> Text:
    value = series.figure("test", setting, kind, metric)
    return figure(value.mean, value.std) if value else figure(None)


def _costs(all_series: Sequence[Series]) -> Table:
    wanted = {
        "seeds": _seeds,
        "best epoch": lambda series: _mean(series, lambda results: results.mean.best_epoch),
        "training, events/s": lambda series: _mean(series, training_speed),
        "scoring, events/s": lambda series: _mean(series, scoring_speed),
        "ranks": lambda series: _mean(series, lambda results: results.conditions.ranks),
        "peak memory, largest rank": _peak,
    }
    rows = [[name, *(value(series) for series in all_series)] for name, value in wanted.items()]
    return Table("Time and memory", _heads("", all_series), [("", rows)], "compared")


def _seeds(series: Series) -> str:
    """Return the seeds as text; figures are those of the finished ones alone."""
    finished = ", ".join(map(str, series.seeds)) or "none"
    unfinished = ", ".join(map(str, series.unfinished_seeds))
    return f"{finished}; {unfinished} unfinished" if unfinished else finished


def _mean(series: Series, fact: Callable[[Results], float | None]) -> str:
    value = series.mean_of(fact)
    return GAP if value is None else amount(value)


def _peak(series: Series) -> str:
    found = [run.results.conditions.peak_memory_bytes or 0 for run in series.runs if run.results]
    return size(max(found)) if any(found) else GAP


def _differences(all_series: Sequence[Series]) -> Table | None:
    differing = differing_settings(all_series)
    if not differing:
        return None
    rows = [code([key, *map(setting_value, values)]) for key, values in differing.items()]
    return Table("Settings that differ", _heads("key", all_series), [("", rows)], "compared")


def _heads(first: str, all_series: Sequence[Series]) -> list[str]:
    return [first, *(series.name for series in all_series)]
