"""Numbers for people: figures, differences, amounts, sizes, durations, values of settings."""

import math

from tpnet_dist.report.blocks import Text

GAP = "–"
"""The text that is shown where there is no figure."""


def number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def figure(value: float | None, spread: float | None = None) -> Text:
    """Return a figure of four digits, and its spread."""
    if value is None or not math.isfinite(value):
        return Text(GAP)
    return Text(number(value, 4), "" if spread is None else f"±{number(spread, 4)}")


def difference(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return GAP
    return ("+" if value > 0 else "") + number(value, 4)


def amount(value: float) -> str:
    """Return three digits that matter, of whole numbers all: 0.123, 12.3, 12, 1,234."""
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
    """Return the value of a setting, for people."""
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, float):
        return f"{value:g}"
    return "by default" if value is None else str(value) if value != "" else "none"
