"""The frame of a figure: axes with round ticks, in SVG that takes its colours from the page.

Figures are 440 wide, so that their type stays readable where a phone shows them at 360.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tpnet_dist.report.markup import tag, text

WIDTH, HEIGHT = 440, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 30, 44
SWATCH_WIDTH = 30
COLOURS = ("first", "second", "third", "fourth", "fifth", "sixth")


@dataclass(frozen=True)
class Axis:
    """From values to places: `low` is at `start`, `high` at `stop`."""

    low: float
    high: float
    start: float
    stop: float
    step: float | None = None
    """Between ticks, if it is known already."""

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.stop - self.start)

    def ticks(self, most: int = 6, *, whole: bool = False) -> list[float]:
        step = self.step or round_step((self.high - self.low) / most)
        step = max(1.0, step) if whole else step
        first = math.ceil(self.low / step - 1e-9)
        return [step * number for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


@dataclass(frozen=True)
class Legend:
    """One entry: what a mark stands for, and the mark itself, drawn in a box of 30 by 12."""

    label: str
    swatch: str


@dataclass
class Plot:
    """A figure that is being drawn."""

    x: Axis
    y: Axis
    height: float = HEIGHT
    marks: list[str] = field(default_factory=list)

    def add(self, *marks: str) -> None:
        self.marks += marks

    def grid_y(self, label: str, digits: int, most: int = 5) -> None:
        """Lines across, their values at the left, what they are above them."""
        for tick in self.y.ticks(most):
            y = self.y.at(tick)
            self.add(line(self.x.start, y, self.x.stop, y, "grid"))
            self.add(label_at(LEFT - 8, y + 4, f"{tick:,.{digits}f}", "end"))
        self.add(label_at(4, 16, label, "start", "axis"))

    def ticks_x(self, label: str, *, digits: int = 0, whole: bool = True, across: bool = False) -> None:
        bottom = max(self.y.start, self.y.stop)
        for tick in self.x.ticks(6, whole=whole):
            x = self.x.at(tick)
            self.add(line(x, min(self.y.start, self.y.stop) if across else bottom, x, bottom + 4, "grid"))
            self.add(label_at(x, bottom + 18, f"{tick:,.{digits}f}", "middle"))
        self.add(label_at((self.x.start + self.x.stop) / 2, bottom + 38, label, "middle", "axis"))

    def svg(self, description: str) -> str:
        return tag(
            "svg",
            *self.marks,
            viewBox=f"0 0 {WIDTH} {self.height:g}",
            role="img",
            aria_label=description,
        )


def round_step(step: float) -> float:
    """The next of 1, 2 and 5 times a power of ten."""
    if step <= 0 or not math.isfinite(step):
        return 1.0
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= step * (1 - 1e-9))


def axis_around(
    values: Iterable[float], start: float, stop: float, *, low: float | None = None, high: float | None = None
) -> Axis:
    """From one round number to another, with all values between them, or from where is said."""
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    least, most = min(finite), max(finite)
    if least == most:
        least, most = least - 0.5 * (abs(least) or 1), most + 0.5 * (abs(most) or 1)
    step = round_step((most - least) / 5)
    first = math.floor(least / step) * step if low is None else low
    last = math.ceil(most / step) * step if high is None else high
    return Axis(first, last if last > first else first + 1, start, stop, step)


def digits_of(axis: Axis, most: int = 5) -> int:
    """How many the ticks of an axis need."""
    ticks = axis.ticks(most)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
    return max(0, -math.floor(math.log10(step) + 1e-9))


def across() -> tuple[float, float]:
    """Where the horizontal axis starts and stops."""
    return LEFT, WIDTH - RIGHT


def upward(height: float = HEIGHT) -> tuple[float, float]:
    """Where the vertical axis starts, at the bottom, and stops."""
    return height - BOTTOM, TOP


def colour(place: int) -> str:
    """Of the series at this place."""
    return COLOURS[place % len(COLOURS)]


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def label_at(x: float, y: float, words: str, anchor: str, kind: str = "tick") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text(words)}</text>'


def path(points: Sequence[tuple[float, float]], kind: str) -> str:
    if not points:
        return ""
    steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="{kind}" points="{steps}"/>'


def dot(x: float, y: float, radius: float, kind: str, hint: str) -> str:
    """`hint` shows where a pointer rests."""
    place = f'cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"'
    return f'<circle class="{kind}" {place}><title>{text(hint)}</title></circle>'


def bar(left: float, top: float, right: float, bottom: float, kind: str, hint: str) -> str:
    box = (
        f'x="{left:.1f}" y="{top:.1f}" width="{max(right - left, 0):.1f}" height="{max(bottom - top, 0):.1f}"'
    )
    return f'<rect class="{kind}" {box}><title>{text(hint)}</title></rect>'


def figure(title: str, svg: str, legend: Sequence[Legend] = (), note: str = "") -> str:
    """With its title above, legend and note below; those are text, so that they wrap."""
    entries = "".join(
        tag(
            "li",
            f'<svg viewBox="0 0 {SWATCH_WIDTH} 12" aria-hidden="true">{entry.swatch}</svg>',
            text(entry.label),
        )
        for entry in legend
    )
    below = tag("ul", entries, class_="legend") if legend else ""
    below += tag("p", text(note), class_="note") if note else ""
    return tag("figure", tag("h3", text(title)), svg, tag("figcaption", below) if below else "")
