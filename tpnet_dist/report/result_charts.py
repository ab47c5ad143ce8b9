"""Test figures of all six settings on one scale: the run, the paper, and the baselines."""

from collections.abc import Sequence
from dataclasses import dataclass

from tpnet_dist.report import marks
from tpnet_dist.report.plot import RIGHT, WIDTH, Axis, Chart, Legend, Plot, axis_around
from tpnet_dist.report.series import KINDS, SETTINGS, Series, Spread, have_one_log

ROW, HEADING, FOOT = 24, 22, 46
LANE = 7
"""The distance between the marks of two series in a row."""
LEFT_OF_DOTS = 84
BANKS = {"edgebank_unlimited": "EdgeBank, all edges seen", "edgebank_window": "EdgeBank, latest time window"}


@dataclass(frozen=True)
class Shown:
    """One figure of a setting."""

    kind: str
    hint: str
    value: Spread
    lane: float = 0.0
    """The distance below the middle of its row, so that series do not hide one another."""


Rows = dict[tuple[str, str], list[Shown]]
"""Rows by events and negatives."""


def result_chart(all_series: Sequence[Series], metric: str, dataset: str | None) -> Chart | None:
    """Draw settings as rows; of several series each has its colour and its lane."""
    rows = {
        (setting, kind): figures
        for setting in SETTINGS
        for kind in KINDS
        if (figures := _marks(all_series, setting, kind, metric, dataset))
    }
    if not rows:
        return None
    values = [mark.value.mean for figures in rows.values() for mark in figures]
    settings = list(dict.fromkeys(setting for setting, _ in rows))
    row = ROW + LANE * (len(all_series) - 1)
    height = len(rows) * row + len(settings) * HEADING + FOOT
    x = axis_around(values, LEFT_OF_DOTS, WIDTH - RIGHT, high=1.0 if max(values) > 0.9 else None)
    plot = Plot(x, Axis(0, 1, height - FOOT, 4), height=height)
    name = metric.upper()
    plot.grid_x(f"test {name}, mean over batches")
    _draw_rows(plot, rows, row)
    title = f"Test {name} in all settings"
    return plot.chart(title, _description(name, rows), _legend(all_series, rows))


def _draw_rows(plot: Plot, rows: Rows, row: float) -> None:
    y, before = 4.0, ""
    for (setting, kind), figures in rows.items():
        if setting != before:
            plot.add(marks.label_at(0, y + 15, f"{setting.capitalize()} events", "start", "axis strong"))
            y, before = y + HEADING, setting
        middle = y + row / 2
        plot.add(marks.label_at(LEFT_OF_DOTS - 10, middle + 4, kind, "end"))
        plot.add(marks.line(plot.x.start, middle, plot.x.stop, middle, "grid"))
        plot.add(*(drawn for mark in reversed(figures) for drawn in _drawn(plot.x, middle + mark.lane, mark)))
        y += row


def _marks(
    all_series: Sequence[Series], setting: str, kind: str, metric: str, dataset: str | None
) -> list[Shown]:
    own = [
        Shown(f"run {marks.colour(place)}", series.name, value, _lane(place, all_series))
        for place, series in enumerate(all_series)
        if (value := series.figure("test", setting, kind, metric))
    ]
    if not own:
        return []
    figures = [*own, *(_paper_marks(all_series, setting, kind, metric, dataset) if dataset else ())]
    for bank, title in BANKS.items() if have_one_log(all_series) else ():
        seen = all_series[0].bank(bank, setting, kind, metric)
        if seen is not None:
            figures.append(Shown(bank, title, Spread(seen, None, 1)))
    return figures


def _paper_marks(
    all_series: Sequence[Series], setting: str, kind: str, metric: str, dataset: str
) -> list[Shown]:
    """Return a mark for each model, in the lane of its first series where there are several models."""
    by_model = {series.model: place for place, series in reversed(list(enumerate(all_series)))}
    found = []
    for model, place in sorted(by_model.items(), key=lambda item: item[1]):
        if (paper := all_series[place].paper(dataset, setting, kind, metric)) is not None:
            hint = f"the paper's {model.title}" if len(by_model) > 1 else "the paper"
            lane = _lane(place, all_series) if len(by_model) > 1 else 0.0
            found.append(Shown("paper", hint, Spread(paper.mean, paper.std, 5), lane))
    return found


def _lane(place: int, all_series: Sequence[Series]) -> float:
    return LANE * (place - (len(all_series) - 1) / 2)


def _drawn(axis: Axis, y: float, mark: Shown) -> list[marks.Mark]:
    x, std = axis.at(mark.value.mean), mark.value.std
    hint = f"{mark.hint}: {mark.value.mean:.4f}" + (f" ± {std:.4f}" if std else "")
    whiskers = []
    if std:
        low, high = (
            min(max(axis.at(mark.value.mean + side * std), axis.start), axis.stop) for side in (-1, 1)
        )
        whiskers = [marks.line(low, y, high, y, f"whisker {mark.kind}")]
    return [*whiskers, _shape(mark.kind, x, y, hint)]


def _shape(kind: str, x: float, y: float, hint: str = "") -> marks.Mark:
    if kind == "paper":
        return marks.polygon([(x, y - 6), (x + 6, y), (x, y + 6), (x - 6, y)], "paper", hint)
    if kind == "edgebank_unlimited":
        return marks.bar(x - 1.5, y - 7, x + 1.5, y + 7, "bank", hint)
    if kind == "edgebank_window":
        return marks.dot(x, y, 3.5, "bank hollow", hint)
    return marks.dot(x, y, 4.5, kind, hint)


def _legend(all_series: Sequence[Series], rows: Rows) -> list[Legend]:
    shown = dict.fromkeys((mark.kind, mark.hint) for figures in rows.values() for mark in figures)
    is_one = len(all_series) == 1 and len(all_series[0].runs) == 1
    return [
        Legend("this run" if is_one and kind.startswith("run") else hint, (_shape(kind, 15, 6),))
        for kind, hint in shown
    ]


def _description(name: str, rows: Rows) -> str:
    best = ", ".join(
        f"{setting} {kind} {figures[0].value.mean:.4f}" for (setting, kind), figures in rows.items()
    )
    return f"Test {name} by events and negatives: {best}"
