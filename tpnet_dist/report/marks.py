"""Marks of SVG, which take their colours from the page."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

COLOURS = ("first", "second", "third", "fourth", "fifth", "sixth")

Points = Sequence[tuple[float, float]]
"""Places, from the left and from the top."""


@dataclass(frozen=True)
class Mark:
    """One SVG element."""

    name: str
    attributes: dict[str, str]
    text: str = ""
    """The text that a text element shows."""
    hint: str = ""
    """The text that is shown where a pointer rests."""


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
