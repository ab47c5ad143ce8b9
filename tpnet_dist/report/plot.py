"""The frame of a chart: axes with round ticks, and marks of SVG that take their colours from the page.

Charts are 440 wide, so that their type stays readable where a phone shows them at 360.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

WIDTH, HEIGHT = 440, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 30, 44
COLOURS = ("first", "second", "third", "fourth", "fifth", "sixth")

Points = Sequence[tuple[float, float]]
"""Places, from the left and from the top."""


@dataclass(frozen=True)
class Axis:
    """Maps values to places: `low` is at `start`, `high` at `stop`."""

    low: float
    high: float
    start: float
    stop: float
    step: float | None = None
    """The distance between ticks, if it is known already."""

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.stop - self.start)

    def ticks(self, most: int = 6, *, whole: bool = False) -> list[float]:
        step = self.step or round_step((self.high - self.low) / most)
        step = max(1.0, step) if whole else step
        first = math.ceil(self.low / step - 1e-9)
        return [step * number for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


@dataclass(frozen=True)
class Mark:
    """One SVG element."""

    name: str
    attributes: dict[str, str]
    text: str = ""
    """The text that a text element shows."""
    hint: str = ""
    """The text that is shown where a pointer rests."""


@dataclass(frozen=True)
class Legend:
    """One entry: what a mark stands for, and the mark itself, drawn in a box of 30 by 12."""

    label: str
    swatch: tuple[Mark, ...]


@dataclass(frozen=True)
class Chart:
    """A figure: its title above, legend and note below; those are text, so that they wrap."""

    title: str
    description: str
    """The description for those who do not see it."""
    height: float
    marks: Sequence[Mark]
    legend: Sequence[Legend] = ()
    note: str = ""
    width: float = WIDTH


@dataclass
class Plot:
    """A figure that is being drawn."""

    x: Axis
    y: Axis
    height: float = HEIGHT
    marks: list[Mark] = field(default_factory=list)

    def add(self, *marks: Mark) -> None:
        self.marks += marks

    def grid_y(self, label: str, digits: int, most: int = 5) -> None:
        """Draw lines across, their values at the left, what they are above them."""
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

    def chart(self, title: str, description: str, legend: Sequence[Legend] = (), note: str = "") -> Chart:
        return Chart(title, description, self.height, tuple(self.marks), legend, note)


def round_step(step: float) -> float:
    """Return the next of 1, 2 and 5 times a power of ten."""
    if step <= 0 or not math.isfinite(step):
        return 1.0
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= step * (1 - 1e-9))


def axis_around(
    values: Iterable[float], start: float, stop: float, *, low: float | None = None, high: float | None = None
) -> Axis:
    """Return an axis from one round number to another, with all values between them, or from where is
    said."""
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    least, most = min(finite), max(finite)
    if least == most:
        least, most = least - 0.5 * (abs(least) or 1), most + 0.5 * (abs(most) or 1)
    step = round_step((most - least) / 5)
    first = math.floor(least / step) * step if low is None else low
    last = math.ceil(most / step) * step if high is None else high
    return Axis(first, last if last > first else first + 1, start, stop, step)


def digits_of(axis: Axis, most: int = 5) -> int:
    """Return how many digits the ticks of an axis need."""
    ticks = axis.ticks(most)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
    return max(0, -math.floor(math.log10(step) + 1e-9))


def across() -> tuple[float, float]:
    """Return where the horizontal axis starts and stops."""
    return LEFT, WIDTH - RIGHT


def upward(height: float = HEIGHT) -> tuple[float, float]:
    """Return where the vertical axis starts, at the bottom, and stops."""
    return height - BOTTOM, TOP


def colour(place: int) -> str:
    """Return the colour of the series at this place."""
    return COLOURS[place % len(COLOURS)]


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Mark:
    return _mark("line", kind, x1=x1, y1=y1, x2=x2, y2=y2)


def label_at(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> Mark:
    mark = _mark("text", kind, x=x, y=y)
    return replace(mark, attributes={**mark.attributes, "text-anchor": anchor}, text=text)


def path(points: Points, kind: str) -> list[Mark]:
    """Return the marks of a path; none without points."""
    return [Mark("polyline", {"class": kind, "points": _joined(points)})] if points else []


def polygon(points: Points, kind: str, hint: str = "") -> Mark:
    return Mark("polygon", {"class": kind, "points": _joined(points)}, hint=hint)


def dot(x: float, y: float, radius: float, kind: str, hint: str = "") -> Mark:
    mark = _mark("circle", kind, hint, cx=x, cy=y)
    return replace(mark, attributes={**mark.attributes, "r": f"{radius:g}"})


def bar(left: float, top: float, right: float, bottom: float, kind: str, hint: str = "") -> Mark:
    return _mark("rect", kind, hint, x=left, y=top, width=max(right - left, 0), height=max(bottom - top, 0))


def _mark(name: str, kind: str, hint: str = "", **places: float) -> Mark:
    return Mark(name, {"class": kind, **{key: f"{place:.1f}" for key, place in places.items()}}, hint=hint)


def _joined(points: Points) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
