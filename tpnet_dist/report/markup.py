"""HTML and SVG as text: tags, tables, numbers for people. What comes from files goes through `text`."""

import math
import re
from collections.abc import Iterable, Sequence
from html import escape, unescape

GAP = "–"
"""Where there is no figure."""


def text(value: object) -> str:
    """Safe in any place of a page."""
    return escape(str(value))


def tag(name: str, *content: str, **attributes: object) -> str:
    """`class_` is class, `aria_label` is aria-label; content is markup already, attributes are not."""
    words = [f'{key.strip("_").replace("_", "-")}="{text(value)}"' for key, value in attributes.items()]
    opening = " ".join([name, *words])
    return f"<{opening}>{''.join(content)}</{name}>"


def number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def figure(value: float | None, spread: float | None = None) -> str:
    """A figure of four digits, its spread in small type below it."""
    if value is None or not math.isfinite(value):
        return GAP
    small = "" if spread is None else tag("small", f"±{number(spread, 4)}")
    return number(value, 4) + small


def difference(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return GAP
    return ("+" if value > 0 else "") + number(value, 4)


def amount(value: float) -> str:
    """Three digits that matter, of whole numbers all: 0.123, 12.3, 12, 1,234."""
    if not math.isfinite(value):
        return GAP
    digits = 0 if value == round(value) else max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 6)}f}".replace("-", "−")


def size(num_bytes: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if num_bytes < 1024:
            return f"{amount(num_bytes)} {unit}"
        num_bytes /= 1024
    return f"{amount(num_bytes)} GiB"


def duration(seconds: float) -> str:
    for length, unit in ((86400 * 365.25, "years"), (86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * length:
            return f"{amount(seconds / length)} {unit}"
    return f"{amount(seconds)} seconds"


def setting_value(value: object) -> str:
    """The value of a setting, for people."""
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, float):
        return f"{value:g}"
    return "by default" if value is None else str(value) if value != "" else "none"


def table(
    caption: str,
    head: Sequence[str],
    groups: Iterable[tuple[str, Iterable[Sequence[str]]]],
    kind: str = "figures",
) -> str:
    """Rows by group, each with a heading unless that is empty; the first cell of a row is its heading.

    Wider than the screen, it scrolls by itself, by keyboard too.
    """
    heads = "".join(tag("th", cell, scope="col") for cell in head)
    bodies = "".join(_body(title, rows, len(head)) for title, rows in groups)
    whole = tag("table", tag("caption", caption), tag("thead", tag("tr", heads)), bodies, class_=kind)
    return tag("div", whole, class_="scroll", tabindex=0, role="region", aria_label=_plain(caption))


def pairs(caption: str, rows: Iterable[tuple[str, str]]) -> str:
    """A list of facts: what, and its value."""
    body = "".join(tag("div", tag("dt", what), tag("dd", value)) for what, value in rows)
    return tag("dl", body, class_="facts", aria_label=_plain(caption))


def deeper(markup: str) -> str:
    """With headings one level lower, for what stands under a heading of its own."""
    return re.sub(r"(</?h)([2-5])\b", lambda found: f"{found[1]}{int(found[2]) + 1}", markup)


def folded(summary: str, content: str) -> str:
    return tag("details", tag("summary", summary), content)


def _body(title: str, rows: Iterable[Sequence[str]], width: int) -> str:
    heading = tag("tr", tag("th", title, colspan=width, scope="rowgroup")) if title else ""
    lines = [
        tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in rest)) for first, *rest in rows
    ]
    return tag("tbody", heading, *lines)


def _plain(markup: str) -> str:
    """Without tags, for attributes; entities are made anew by `tag`."""
    return unescape(re.sub(r"<[^>]*>", "", markup))
