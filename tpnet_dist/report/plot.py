"""The frame of a chart: axes with round ticks, and the marks drawn between them.

Charts are 440 wide, so that their type stays readable where a phone shows them at 360.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tpnet_dist.report.marks import Mark, label_at, line

WIDTH, HEIGHT = 440, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 30, 44


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

    def grid_y(self, label: str) -> None:
        """Draw lines across, their values at the left, what they are above them."""
        for tick in self.y.ticks(5):
            y = self.y.at(tick)
            self.add(line(self.x.start, y, self.x.stop, y, "grid"))
            self.add(label_at(LEFT - 8, y + 4, f"{tick:,.{digits_of(self.y)}f}", "end"))
        self.add(label_at(4, 16, label, "start", "axis"))

    def grid_x(self, label: str) -> None:
        """Draw lines from top to bottom, their values and what they are below them."""
        top, digits = min(self.y.start, self.y.stop), digits_of(self.x, 6)
        self._ticks_x(label, self.x.ticks(6), top, digits)

    def ticks_x(self, label: str) -> None:
        """Draw ticks below at whole numbers, their values and what they are."""
        self._ticks_x(label, self.x.ticks(6, whole=True), max(self.y.start, self.y.stop), digits=0)

    def _ticks_x(self, label: str, ticks: list[float], top: float, digits: int) -> None:
        bottom = max(self.y.start, self.y.stop)
        for tick in ticks:
            x = self.x.at(tick)
            self.add(line(x, top, x, bottom + 4, "grid"))
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
