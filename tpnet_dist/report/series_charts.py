"""Several series in one figure: validation AP by epoch, and speed."""

from collections.abc import Sequence

from tpnet_dist.report import marks
from tpnet_dist.report.numbers import amount
from tpnet_dist.report.plot import RIGHT, WIDTH, Axis, Chart, Legend, Plot, across, axis_around, upward
from tpnet_dist.report.series import Series, training_speed

SETTING = "transductive"
"""The setting whose figures choose the best epoch."""
BAR, FOOT = 42, 46
Points = list[tuple[int, float]]


def validation_chart(all_series: Sequence[Series]) -> Chart | None:
    """Draw a line for each seed, in the colour and dashes of its series."""
    lines = [
        (f"{marks.colour(place)} dashes-{place % 3}", name, points)
        for place, series in enumerate(all_series)
        for name, points in _points(series)
    ]
    if not lines:
        return None
    last = max(epoch for _, _, points in lines for epoch, _ in points)
    values = [value for _, _, points in lines for _, value in points]
    plot = Plot(Axis(1, max(last, 2), *across()), axis_around(values, *upward()))
    plot.grid_y("AP, mean over batches")
    plot.ticks_x("epoch")
    for kind, name, points in lines:
        plot.add(*_line(plot, points, kind, name))
    legend = [
        Legend(series.name, (marks.line(0, 6, 30, 6, f"{marks.colour(place)} dashes-{place % 3}"),))
        for place, series in enumerate(all_series)
    ]
    description = f"Validation AP of {len(lines)} seeds by epoch"
    return plot.chart("Validation AP, transductive", description, legend)


def speed_chart(all_series: Sequence[Series]) -> Chart | None:
    """Draw bars of training events per second, all ranks of a run together, the mean of its runs."""
    speeds = [
        (place, series.name, speed)
        for place, series in enumerate(all_series)
        if (speed := series.mean_of(training_speed))
    ]
    if not speeds:
        return None
    height = len(speeds) * BAR + FOOT
    x = axis_around([0, *(speed for _, _, speed in speeds)], 2, WIDTH - RIGHT - 10, low=0)
    plot = Plot(x, Axis(0, 1, height - FOOT, 0), height=height)
    plot.grid_x("training events per second, all ranks")
    for row, (place, name, speed) in enumerate(speeds):
        top, text = row * BAR, f"{name}: {amount(speed)} events/s"
        plot.add(marks.label_at(0, top + 14, text, "start"))
        plot.add(marks.bar(x.start, top + 20, x.at(speed), top + 36, marks.colour(place), text))
    return plot.chart("Training speed", f"Training speed of {len(speeds)} series")


def _points(series: Series) -> list[tuple[str, Points]]:
    found = []
    for run in series.runs:
        for seed, curve in run.curves.by_seed.items():
            values = ((epoch, curve.figure(epoch, "val", SETTING, "ap")) for epoch in sorted(curve.epochs))
            points = [(epoch, value) for epoch, value in values if value is not None]
            found += [(f"{run.name}, seed {seed}", points)] if points else []
    return found


def _line(plot: Plot, points: Points, kind: str, name: str) -> list[marks.Mark]:
    places = [(plot.x.at(epoch), plot.y.at(value)) for epoch, value in points]
    dots = [
        marks.dot(x, y, 2.2, kind, f"{name}, epoch {epoch}: {value:.4f}")
        for (x, y), (epoch, value) in zip(places, points, strict=True)
    ]
    return [*marks.path(places, kind), *dots]
