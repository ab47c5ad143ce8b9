"""Charts of where the time went: by epoch, and, of a run that was traced, by phase of a step and rank."""

from collections.abc import Sequence

from tpnet_dist.report import marks
from tpnet_dist.report.curves import Curve, Curves, EpochTime
from tpnet_dist.report.plot import RIGHT, WIDTH, Axis, Chart, Legend, Plot, across, axis_around, upward
from tpnet_dist.report.traces import MODEL_PHASES, PhaseSeconds

ROW, FOOT = 30, 46
LEFT_OF_BARS = 56


def epoch_time_chart(curves: Curves) -> Chart | None:
    """Draw the seed written last: a bar for each epoch, training below, evaluation above."""
    timed = [(seed, curve) for seed, curve in curves.by_seed.items() if curve.epochs]
    if not timed:
        return None
    seed, curve = timed[-1]
    epochs = sorted(curve.epochs)
    longest = max(_whole(curve.times.get(epoch, EpochTime())) for epoch in epochs)
    unit, name = (60.0, "minutes") if longest > 180 else (1.0, "seconds")
    y = axis_around([0, longest / unit], *upward(), low=0)
    plot = Plot(Axis(epochs[0] - 0.7, epochs[-1] + 0.7, *across()), y)
    plot.grid_y(name)
    plot.ticks_x("epoch")
    for epoch in epochs:
        plot.add(*_bars(plot, epoch, curve, unit))
    legend = [Legend("training", (_box("first"),)), Legend("evaluation", (_box("second"),))]
    note = f"Seed {seed}; " if len(curves.by_seed) > 1 else ""
    note += "by the clock, from the times at which metrics.jsonl was written."
    description = f"Time of {len(epochs)} epochs in {name}"
    return plot.chart("Time of an epoch", description, legend, note.capitalize())


def phase_chart(by_rank: Sequence[PhaseSeconds]) -> Chart | None:
    """Draw traced steps: what the model did, end to end, for each rank."""
    if not by_rank:
        return None
    totals = [sum(phases.seconds.get(phase, 0.0) for phase in MODEL_PHASES) for phases in by_rank]
    height = len(by_rank) * ROW + FOOT
    x = axis_around([0, 1e3 * max(totals)], LEFT_OF_BARS, WIDTH - RIGHT, low=0)
    plot = Plot(x, Axis(0, 1, height - FOOT, 0), height=height)
    plot.grid_x("milliseconds per step")
    for place, phases in enumerate(by_rank):
        plot.add(marks.label_at(0, place * ROW + 20, f"rank {phases.rank}", "start"))
        plot.add(*_phases(plot, place, phases))
    shown = [phase for phase in MODEL_PHASES if any(phases.seconds.get(phase) for phases in by_rank)]
    legend = [Legend(MODEL_PHASES[phase], (_box(_colour(phase)),)) for phase in shown]
    steps = by_rank[0].steps
    note = f"Traced over {steps} steps of the first epoch; planning and exchange of rows run beside them."
    return plot.chart("Where a step's time goes", f"Phases of a step on {len(by_rank)} ranks", legend, note)


def _phases(plot: Plot, place: int, phases: PhaseSeconds) -> list[marks.Mark]:
    bars, done = [], 0.0
    for phase in MODEL_PHASES:
        length = 1e3 * phases.seconds.get(phase, 0.0)
        hint = f"rank {phases.rank}, {MODEL_PHASES[phase]}: {length:.2f} ms"
        bars.append(
            marks.bar(
                plot.x.at(done),
                place * ROW + 5,
                plot.x.at(done + length),
                place * ROW + 25,
                _colour(phase),
                hint,
            )
        )
        done += length
    return bars


def _bars(plot: Plot, epoch: int, curve: Curve, unit: float) -> list[marks.Mark]:
    time = curve.times.get(epoch, EpochTime())
    left, right = plot.x.at(epoch - 0.36), plot.x.at(epoch + 0.36)
    whole, training = (plot.y.at(seconds / unit) for seconds in (_whole(time), time.training))
    return [
        marks.bar(
            left, training, right, plot.y.start, "first", f"epoch {epoch}, training: {time.training:,.1f} s"
        ),
        marks.bar(
            left, whole, right, training, "second", f"epoch {epoch}, evaluation: {time.evaluation:,.1f} s"
        ),
    ]


def _whole(time: EpochTime) -> float:
    return time.training + time.evaluation


def _colour(phase: str) -> str:
    return marks.colour(list(MODEL_PHASES).index(phase))


def _box(kind: str) -> marks.Mark:
    return marks.bar(9, 0, 21, 12, kind)
