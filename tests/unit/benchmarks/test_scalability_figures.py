"""The figures of the scalability study show who finished a log and who did not."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import same_color
from matplotlib.figure import Figure

from benchmarks import scalability_figures
from benchmarks.scalability_figures import HOLLOW, draw_figures


def ours(edges: int) -> dict[str, Any]:
    return {
        "edges": edges,
        "contestant": "ours",
        "ranks": 1,
        "seconds": {"propagation": 2.0},
        "events_per_second": 5e5,
        "ns_per_event_and_float": 1.0,
        "peak_bytes": 1 << 30,
    }


def rival(edges: int, outcome: str, events: int) -> dict[str, Any]:
    facts = {"edges": edges, "contestant": "dense", "ranks": 1, "width": 8, "peak_bytes": 1 << 30}
    return {**facts, "outcome": outcome, "events": events, "seconds": 9.0}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """What would be saved, by name."""
    figures: dict[str, Figure] = {}
    monkeypatch.setattr(
        scalability_figures, "_save", lambda figure, path: figures.update({path.name: figure})
    )
    return figures


def hollow_points(axes: Axes) -> list[float]:
    lines = [line for line in axes.get_lines() if same_color(line.get_markerfacecolor(), "white")]
    return [float(x) for line in lines for x in line.get_xdata()]


def legend_of(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_costs_of_a_rival_that_did_not_finish_are_hollow(drawn: dict[str, Figure], tmp_path: Path) -> None:
    done, late, untried = (
        rival(1000, "finished", 1000),
        rival(10**4, "out of time", 700),
        rival(10**5, "–", 0),
    )
    draw_figures([ours(1000), ours(10**4), ours(10**5), done, late, untried], tmp_path)
    for axes in drawn["cost_per_event"].axes:
        assert hollow_points(axes) == [10**4]
        [line] = [line for line in axes.get_lines() if str(line.get_label()).startswith("dense decay")]
        assert line.get_markevery() == [0] and line.get_xdata().tolist() == [1000, 10**4]
        assert HOLLOW in legend_of(axes)
    for axes in drawn["scalability"].axes:
        assert not hollow_points(axes) and HOLLOW not in legend_of(axes)
    plt.close("all")


def test_where_all_finish_nothing_is_hollow(drawn: dict[str, Figure], tmp_path: Path) -> None:
    draw_figures([ours(1000), rival(1000, "finished", 1000)], tmp_path)
    for axes in drawn["cost_per_event"].axes:
        assert not hollow_points(axes) and HOLLOW not in legend_of(axes)
    plt.close("all")
