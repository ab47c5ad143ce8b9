"""Figures of the scalability study, like the paper's: time, memory and cost of an event against edges."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.typing import ColorType

from benchmarks.measuring import GIB

Line = dict[str, Any]
RIVALS = {"dense": "dense decay (published update)", "stored": "stored walk matrices (as PINT)"}
_MARKERS = "os^Dv"


def draw_figures(lines: list[Line], folder: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    _draw(left, lines, lambda line: line["seconds"]["propagation"], lambda line: line["seconds"])
    left.set(title="Time to record the whole log", ylabel="seconds")
    _draw(right, lines, lambda line: line["peak_bytes"] / GIB, lambda line: line["peak_bytes"] / GIB)
    right.set(title="Peak memory of a rank", ylabel="GiB resident")
    _save(figure, folder / "scalability")

    figure, axes = plt.subplots(figsize=(6, 4.4), layout="constrained")
    _draw(
        axes,
        lines,
        lambda line: 1e6 * line["seconds"]["propagation"] / line["recorded_events"],
        lambda line: 1e6 * line["seconds"] / line["events"],
        linear=False,
        unfinished=True,
    )
    axes.set(title="Cost of recording an event", ylabel="microseconds per event")
    _save(figure, folder / "cost_per_event")


def _draw(
    axes: Axes,
    lines: list[Line],
    ours: Callable[[Line], float],
    theirs: Callable[[Line], float],
    *,
    linear: bool = True,
    unfinished: bool = False,
) -> None:
    """`unfinished`: also where a rival gave up, by what it did until then."""
    first: tuple[float, float] | None = None
    for number, ranks in enumerate(sorted({line["ranks"] for line in lines if line["contestant"] == "ours"})):
        some = [line for line in lines if line["contestant"] == "ours" and line["ranks"] == ranks]
        points = [(line["edges"], ours(line)) for line in some]
        first = first or points[0]
        label = f"tpnet_dist, {ranks} rank{'s' * (ranks > 1)}"
        axes.plot(*zip(*points, strict=True), marker=_MARKERS[number % len(_MARKERS)], label=label)
    for rival, name in RIVALS.items():
        some = [line for line in lines if line["contestant"] == rival and line["events"]]
        points = [
            (line["edges"], theirs(line)) for line in some if line["outcome"] == "finished" or unfinished
        ]
        if points:
            [drawn] = axes.plot(*zip(*points, strict=True), linestyle=":", marker="x", label=name)
            _mark_failure(axes, some, points, drawn.get_color())
    edges = sorted({line["edges"] for line in lines})
    if linear and first is not None:
        reference = [first[1] * size / first[0] for size in edges]
        axes.plot(edges, reference, color="grey", linestyle="--", linewidth=1, label="linear growth")
    axes.set(xscale="log", yscale="log", xlabel="edges")
    axes.grid(which="major", alpha=0.3)
    axes.legend(fontsize=8)


def _mark_failure(axes: Axes, lines: list[Line], points: list[tuple[float, float]], color: ColorType) -> None:
    failed = [line for line in lines if line["outcome"] != "finished"]
    if failed:
        text = f"{failed[0]['outcome']} at {failed[0]['edges']:.0e}".replace("e+0", "e")
        axes.annotate(text, points[-1], xytext=(6, 6), textcoords="offset points", color=color, fontsize=8)


def _save(figure: Figure, path: Path) -> None:
    for ending in ("png", "svg"):
        figure.savefig(path.with_suffix(f".{ending}"), dpi=150)
    plt.close(figure)
