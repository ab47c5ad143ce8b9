"""Figures of the scalability study, like the paper's: time, memory and cost of an event against edges."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.measuring import GIB
from benchmarks.scalability_table import ns_per_event_and_float

Line = dict[str, Any]
RIVALS = {
    "dense": "dense decay (published update)",
    "dense-kept": "dense decay, freed buffers kept",
    "stored": "stored walk matrices (as PINT)",
}
_COLORS = {"dense": "tab:red", "dense-kept": "tab:brown", "stored": "tab:purple"}
_RIVAL_MARKERS = {"dense": "X", "dense-kept": "P", "stored": "*"}
"""The markers of rivals, which can all be hollow."""
HOLLOW = "hollow: did not finish its log"
_OUR_COLORS = ("tab:blue", "tab:orange", "tab:green", "tab:cyan", "tab:olive")
_MARKERS = "os^Dv"
_HEADROOM = 0.05, 0.08
"""Shares of the axes' height: between its top and the marks of failures, and for each rival's marks."""


def draw_figures(lines: list[Line], folder: Path) -> None:
    figure, (left, right) = _two_panels()
    _draw(left, lines, lambda line: line["seconds"]["propagation"], lambda line: line["seconds"])
    left.set(title="Time to record the whole log", ylabel="seconds")
    _draw(right, lines, lambda line: line["peak_bytes"] / GIB, lambda line: line["peak_bytes"] / GIB)
    right.set(title="Peak memory of a rank", ylabel="GiB resident")
    _save(figure, folder / "scalability")

    figure, (left, right) = _two_panels()
    _draw(
        left,
        lines,
        lambda line: 1e6 / line["events_per_second"],
        lambda line: 1e6 * line["seconds"] / line["events"],
        per_event=True,
    )
    left.set(title="Cost of recording an event", ylabel="microseconds per event")
    _draw(
        right,
        [line for line in lines if line["contestant"] != "stored"],
        lambda line: line["ns_per_event_and_float"],
        ns_per_event_and_float,
        per_event=True,
    )
    right.set(title="The same per float of width", ylabel="nanoseconds per event and float")
    _save(figure, folder / "cost_per_event")


def _two_panels() -> tuple[Figure, tuple[Axes, Axes]]:
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.2), layout="constrained")
    return figure, (left, right)


def _draw(
    axes: Axes,
    lines: list[Line],
    ours: Callable[[Line], float],
    theirs: Callable[[Line], float],
    *,
    per_event: bool = False,
) -> None:
    """Draw curves. `per_event`: what does not grow with the log, so that it can be told of a rival that gave
    up, too."""
    first: tuple[float, float] | None = None
    for number, ranks in enumerate(sorted({line["ranks"] for line in lines if line["contestant"] == "ours"})):
        some = [line for line in lines if line["contestant"] == "ours" and line["ranks"] == ranks]
        points = [(line["edges"], ours(line)) for line in some]
        first = first or points[0]
        axes.plot(
            *zip(*points, strict=True),
            marker=_MARKERS[number % len(_MARKERS)],
            color=_OUR_COLORS[number % len(_OUR_COLORS)],
            label=f"tpnet_dist, {ranks} rank{'s' * (ranks > 1)}",
        )
    for rival in sorted({line["contestant"] for line in lines} - {"ours"}):
        some = [line for line in lines if line["contestant"] == rival and line["events"]]
        done = [line for line in some if line["outcome"] == "finished" or per_event]
        _draw_rival(axes, rival, done, theirs)
    if per_event and any(line["events"] for rival in RIVALS for line in _failures(lines, rival)):
        axes.plot([], [], linestyle="none", marker="o", markerfacecolor="none", color="grey", label=HOLLOW)
    edges = sorted({line["edges"] for line in lines})
    if not per_event and first is not None:
        reference = [first[1] * size / first[0] for size in edges]
        axes.plot(edges, reference, color="grey", linestyle="--", linewidth=1, label="linear growth")
    axes.set(xscale="log", yscale="log", xlabel="edges")
    axes.set_xlim(edges[0] / 2.5, edges[-1] * 2.5)
    axes.grid(which="major", alpha=0.3)
    _mark_failures(axes, lines)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)


def _draw_rival(axes: Axes, rival: str, lines: list[Line], value: Callable[[Line], float]) -> None:
    """Draw a rival's line. A rival without a point is in the legend too: its colour tells whose failures are
    marked."""
    points = [(line["edges"], value(line)) for line in lines]
    marker, color = _RIVAL_MARKERS[rival], _COLORS[rival]
    whole = [number for number, line in enumerate(lines) if line["outcome"] == "finished"]
    x, y = [edges for edges, _ in points], [height for _, height in points]
    axes.plot(x, y, linestyle=":", marker=marker, markevery=whole, color=color, label=RIVALS[rival])
    for number in sorted(set(range(len(points))) - set(whole)):
        axes.plot(*points[number], marker=marker, markerfacecolor="white", color=color)


def _mark_failures(axes: Axes, lines: list[Line]) -> None:
    """Write above all curves one line of words for each rival, at the sizes where it failed."""
    shown = [rival for rival in RIVALS if any(_failures(lines, rival))]
    if not shown:
        return
    above, each = _HEADROOM
    low, high = axes.get_ylim()
    share = above + each * len(shown)
    axes.set_ylim(low, high * (high / low) ** (share / (1 - share)))
    for number, rival in enumerate(shown):
        height = 1 - above - each * number
        for line in _failures(lines, rival):
            axes.text(
                line["edges"],
                height,
                line["outcome"].replace(" of ", " of\n"),
                transform=axes.get_xaxis_transform(),
                color=_COLORS[rival],
                fontsize=7,
                ha="center",
                va="center",
            )


def _failures(lines: list[Line], rival: str) -> list[Line]:
    return [line for line in lines if line["contestant"] == rival and line["outcome"] != "finished"]


def _save(figure: Figure, path: Path) -> None:
    for ending in ("png", "svg"):
        figure.savefig(path.with_suffix(f".{ending}"), dpi=150)
    plt.close(figure)
