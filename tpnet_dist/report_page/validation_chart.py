"""Validation AP of several runs by epoch, in one figure."""

from collections.abc import Sequence

from tpnet_dist.report_page.plot import (
    Axis,
    Legend,
    Plot,
    across,
    axis_around,
    digits_of,
    figure,
    line,
    path,
    upward,
)
from tpnet_dist.report_page.result_charts import COLOURS
from tpnet_dist.report_page.series import Series

SETTING = "transductive"
"""What epochs are chosen by."""


def validation_chart(all_series: Sequence[Series]) -> str:
    """A line for each seed, in the colour of its series."""
    lines = [
        (COLOURS[place % len(COLOURS)], points)
        for place, series in enumerate(all_series)
        for points in _points(series)
    ]
    if not lines:
        return ""
    last = max(epoch for _, points in lines for epoch, _ in points)
    values = [value for _, points in lines for _, value in points]
    plot = Plot(Axis(1, max(last, 2), *across()), axis_around(values, *upward()))
    plot.grid_y("AP, mean over batches", digits_of(plot.y))
    plot.ticks_x("epoch")
    for colour, points in lines:
        plot.add(path([(plot.x.at(epoch), plot.y.at(value)) for epoch, value in points], colour))
    legend = [
        Legend(series.name, line(0, 6, 30, 6, COLOURS[place % len(COLOURS)]))
        for place, series in enumerate(all_series)
    ]
    return figure(
        "Validation AP, transductive", plot.svg(f"Validation AP of {len(lines)} seeds by epoch"), legend
    )


def _points(series: Series) -> list[list[tuple[int, float]]]:
    found = []
    for run in series.runs:
        for curve in run.curves.by_seed.values():
            values = ((epoch, curve.figure(epoch, "val", SETTING, "ap")) for epoch in sorted(curve.epochs))
            points = [(epoch, value) for epoch, value in values if value is not None]
            found += [points] if points else []
    return found
