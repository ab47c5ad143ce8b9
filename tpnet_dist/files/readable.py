"""Numbers as people read them."""


def readable_bytes(num_bytes: float) -> str:
    """Return bytes with their unit, to two places: 12.34 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if num_bytes < 1000 or unit == "GB":
            return f"{num_bytes:,.0f} {unit}" if unit == "B" else f"{num_bytes:,.2f} {unit}"
        num_bytes /= 1000
    raise AssertionError
