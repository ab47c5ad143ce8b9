"""Curves of training: loss by step, AP and AUC by epoch; of several seeds, thin lines of one colour."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tpnet_dist.report import marks
from tpnet_dist.report.curves import Curve, Curves
from tpnet_dist.report.plot import Axis, Chart, Legend, Plot, across, axis_around, upward
from tpnet_dist.report.series import SETTINGS

MOST_BINS = 150
"""The most bins of steps along the axis: more would not be seen."""
MOST_DOTS = 40
"""The most epochs of a curve that are drawn as dots; with more there are lines alone."""
PARTS = {"val": "validation", "test": "test"}
COLOURS = {"transductive": "first", "inductive": "second"}


@dataclass(frozen=True)
class Bin:
    """Losses of consecutive steps."""

    step: float
    low: float
    mean: float
    high: float


def loss_chart(curves: Curves) -> Chart | None:
    """Draw means of a few steps in a band of all they lie between; a dot is the mean of an epoch."""
    binned = {seed: bins(curve.losses) for seed, curve in curves.by_seed.items() if curve.losses}
    if not binned:
        return None
    values = [value for some in binned.values() for each in some for value in (each.low, each.high)]
    plot = Plot(Axis(0, max(curves.last_step, 1), *across()), axis_around(values, *upward()))
    plot.grid_y("binary cross-entropy")
    plot.ticks_x("optimizer step")
    for seed, some in binned.items():
        means = [(plot.x.at(each.step), plot.y.at(each.mean)) for each in some]
        plot.add(_band(plot, some), *marks.path(means, "first"))
        plot.add(*_epoch_losses(plot, curves.by_seed[seed], seed))
    legend = [Legend("steps, mean and range", (marks.bar(0, 0, 30, 12, "band first"), _dash("first")))]
    if curves.last_epoch:
        legend.append(Legend("mean of an epoch", (marks.dot(15, 6, 4, "second"),)))
    return plot.chart("Training loss", f"Training loss over {curves.last_step:,} steps", legend)


def bins(losses: dict[int, float]) -> list[Bin]:
    """Return at most `MOST_BINS` bins, of equally many steps each."""
    steps = sorted(losses)
    size = -(-len(steps) // MOST_BINS)
    found = []
    for start in range(0, len(steps), max(size, 1)):
        some = steps[start : start + size]
        values = [losses[step] for step in some]
        found.append(Bin(sum(some) / len(some), min(values), sum(values) / len(values), max(values)))
    return found


def metric_chart(curves: Curves, metric: str, best_epochs: Sequence[int]) -> Chart | None:
    """Draw kinds of events by colour, validation and test by dashes; of one seed a line marks the best
    epoch."""
    lines = {
        (seed, part, setting): points
        for seed, curve in curves.by_seed.items()
        for part in PARTS
        for setting in SETTINGS
        if (points := _points(curve, part, setting, metric))
    }
    if not lines:
        return None
    values = [value for points in lines.values() for _, value in points]
    plot = Plot(
        Axis(*_epoch_range(curves.last_epoch), *across()), axis_around(values, *upward(), high=_top(values))
    )
    name = metric.upper()
    plot.grid_y(f"{name}, mean over batches")
    plot.ticks_x("epoch")
    if len(best_epochs) == 1:
        plot.add(*_best(plot, best_epochs[0]))
    for (seed, part, setting), points in lines.items():
        plot.add(*_line(plot, points, f"{COLOURS[setting]} {part}", f"seed {seed}, {PARTS[part]}, {setting}"))
    shown = dict.fromkeys((part, setting) for _, part, setting in lines)
    legend = [
        Legend(f"{PARTS[part]}, {setting}", (_dash(f"{COLOURS[setting]} {part}"),)) for part, setting in shown
    ]
    seeds = len({seed for seed, _, _ in lines})
    note = f"One line for each of {seeds} seeds." if seeds > 1 else ""
    description = f"{name} of {len(shown)} kinds of events by epoch"
    return plot.chart(f"{name} by epoch", description, legend, note)


def _points(curve: Curve, part: str, setting: str, metric: str) -> list[tuple[int, float]]:
    found = ((epoch, curve.figure(epoch, part, setting, metric)) for epoch in sorted(curve.epochs))
    return [(epoch, value) for epoch, value in found if value is not None]


def _line(plot: Plot, points: Sequence[tuple[int, float]], kind: str, name: str) -> list[marks.Mark]:
    places = [(plot.x.at(epoch), plot.y.at(value)) for epoch, value in points]
    radius = 2.6 if len(points) <= MOST_DOTS else 1.2
    dots = [
        marks.dot(x, y, radius, kind, f"{name}, epoch {epoch}: {value:.4f}")
        for (x, y), (epoch, value) in zip(places, points, strict=True)
    ]
    return [*marks.path(places, kind), *dots]


def _best(plot: Plot, epoch: int) -> list[marks.Mark]:
    x = plot.x.at(epoch)
    near_end = epoch > (plot.x.low + plot.x.high) / 2
    text = marks.label_at(
        x + (-6 if near_end else 6), plot.y.start - 8, f"best, epoch {epoch}", "end" if near_end else "start"
    )
    return [marks.line(x, plot.y.start, x, plot.y.stop, "marker"), text]


def _epoch_losses(plot: Plot, curve: Curve, seed: int) -> list[marks.Mark]:
    ends = [(0, 0), *sorted(curve.last_steps.items())]
    return [
        marks.dot(
            plot.x.at((before + last) / 2),
            plot.y.at(loss),
            2.6,
            "second",
            f"seed {seed}, epoch {epoch}: mean loss {loss:.4f}",
        )
        for (_, before), (epoch, last) in pairwise(ends)
        if epoch in curve.epochs and math.isfinite(loss := curve.epochs[epoch].train_loss)
    ]


def _band(plot: Plot, some: Sequence[Bin]) -> marks.Mark:
    upper = [(plot.x.at(each.step), plot.y.at(each.high)) for each in some]
    lower = [(plot.x.at(each.step), plot.y.at(each.low)) for each in reversed(some)]
    return marks.polygon([*upper, *lower], "band first")


def _dash(kind: str) -> marks.Mark:
    return marks.line(0, 6, 30, 6, kind)


def _epoch_range(last: int) -> tuple[int, int]:
    return 1, max(last, 2)


def _top(values: Sequence[float]) -> float | None:
    """Return 1 as the top of an axis whose values come near it, since nothing is above 1."""
    return 1.0 if max(values) > 0.98 else None
