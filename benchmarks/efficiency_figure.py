"""The paper's efficiency figure: AP against the seconds of an epoch, on a logarithmic axis, every model."""

from math import log
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from benchmarks.accuracy_figures import new_figure, save_figure
from benchmarks.efficiency_rows import Efficiency
from benchmarks.study_logs import title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN_SHARE = 0.005
"""Below it a model has no relative encodings to speak of."""


def draw_efficiency(rows: list[Efficiency], dataset: str, path: Path) -> list[Path]:
    """Draw scoring as in the paper, and training beside it."""
    figure = new_figure(13, 5)
    scoring, training = figure.subplots(1, 2, sharey=True)
    _draw(scoring, rows, "scoring")
    _draw(training, rows, "training")
    scoring.set(ylabel="test AP, random negatives", title=f"{title_of(dataset)}: scoring the test part")
    training.set(title=f"{title_of(dataset)}: training for an epoch")
    return save_figure(figure, path)


def _draw(axes: "Axes", rows: list[Efficiency], phase: str) -> None:
    """Draw each model; one that was not trained lies at the paper's AP, one that has none there below all."""
    middle = fmean(log(_seconds(row, phase)) for row in rows)
    lowest = min((ap for row in rows if (ap := _ap(row)) is not None), default=0.5)
    for number, row in enumerate(sorted(rows, key=lambda row: (_ap(row) or lowest, row.title))):
        seconds = _seconds(row, phase)
        is_right = log(seconds) > middle + 1
        speed = row.scoring if phase == "scoring" else row.training
        is_trained, ap = row.test_ap is not None, _ap(row)
        face = f"C{number}" if is_trained else "none"
        axes.plot(seconds, lowest if ap is None else ap, "o", color=f"C{number}", markerfacecolor=face)
        share = speed.shares.relative_encoding
        label = row.title + (f" ({share:.0%})" if share >= SHOWN_SHARE else "")
        label += f"\n{speed.times_tpnet:.1f} × TPNet" if row.model != "tpnet" else ""
        label += "" if is_trained else "\n(AP: the paper's)" if ap is not None else "\n(no AP yet)"
        axes.annotate(
            label,
            (seconds, lowest if ap is None else ap),
            xytext=(-8 if is_right else 8, -4),
            ha="right" if is_right else "left",
            textcoords="offset points",
            fontsize="small",
        )
    axes.set_xscale("log")
    axes.margins(x=0.25, y=0.12)
    axes.grid(visible=True, which="both", color="0.93")
    axes.set_axisbelow(True)
    axes.set(xlabel="seconds (in brackets: share of relative encodings)")


def _seconds(row: Efficiency, phase: str) -> float:
    return row.scoring_epoch if phase == "scoring" else row.training_epoch


def _ap(row: Efficiency) -> float | None:
    return row.paper_ap if row.test_ap is None else row.test_ap
