"""The table of the scalability study, for a terminal and as Markdown."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measuring import GIB

Line = dict[str, Any]

RIVALS = {
    "dense": "dense decay, as released",
    "dense-kept": "dense decay, buffers kept",
    "stored": "stored matrices",
}
DENSE = {"dense": "× faster than dense", "dense-kept": "× faster than dense, buffers kept"}
"""Rivals that we are compared with, and the headings above it."""
HEADINGS = (
    "edges",
    "contestant",
    "neighbours s",
    "propagation s",
    "events/s",
    "ns per event and float of width",
    *DENSE.values(),
    "training P50 ms",
    "scoring P50 ms",
    "peak GiB per rank",
    "of it rows",
    "resident for rows ÷ L·D·4",
    "bytes/event",
)
NOTHING = "–"


def times_faster(lines: list[Line], rival: str) -> dict[tuple[int, int], float]:
    """Return by edges and ranks the time that an event cost the rival over what it cost us, at the same
    size."""
    theirs = {
        line["edges"]: line["seconds"] / line["events"]
        for line in lines
        if line["contestant"] == rival and line["events"]
    }
    return {
        (line["edges"], line["ranks"]): theirs[line["edges"]] * line["events_per_second"]
        for line in lines
        if line["contestant"] == "ours" and line["edges"] in theirs
    }


def rows_of(lines: list[Line]) -> list[list[str]]:
    times = [times_faster(lines, rival) for rival in DENSE]
    return [
        _our_cells(line, [one.get((line["edges"], line["ranks"])) for one in times])
        if line["contestant"] == "ours"
        else _rival_cells(line)
        for line in lines
    ]


def _our_cells(line: Line, times: list[float | None]) -> list[str]:
    return [
        short(line["edges"]),
        f"ours, {line['ranks']} ranks, by {line['layout']}" if line["ranks"] > 1 else "ours, 1 rank",
        f"{line['seconds']['neighbours']:,.1f}",
        f"{line['seconds']['propagation']:,.1f}",
        f"{line['events_per_second']:,.0f}",
        f"{line['ns_per_event_and_float']:.2f}",
        *(NOTHING if one is None else f"{one:,.1f}" for one in times),
        f"{line['training']['p50_ms']:,.0f}",
        f"{line['scoring']['p50_ms']:,.0f}",
        f"{line['peak_bytes'] / GIB:.2f}",
        f"{line['rows_bytes'] / GIB:.2f}",
        f"{line['rows_resident_of_ideal']:.2f}",
        f"{line['exchanged']['propagation']['bytes_per_event']:,.0f}",
    ]


def _rival_cells(line: Line) -> list[str]:
    rate = f"{line['events'] / line['seconds']:,.0f}" if line["events"] else NOTHING
    per_float = f"{ns_per_event_and_float(line):,.2f}" if line["events"] and line["width"] else NOTHING
    peak = f"{line['peak_bytes'] / GIB:.2f}" if line["peak_bytes"] else NOTHING
    name = RIVALS[line["contestant"]]
    cells = [short(line["edges"]), name, NOTHING, how_far(line), rate, per_float]
    return [*cells, *[NOTHING] * (len(DENSE) + 2), peak, *[NOTHING] * 3]


def ns_per_event_and_float(rival: Line) -> float:
    """Return the nanoseconds per event and float of a rival that has rows of some width."""
    return 1e9 * float(rival["seconds"] / rival["events"] / rival["width"])


def how_far(rival: Line) -> str:
    """Return a rival's seconds, or what stopped it."""
    if rival["outcome"] == "finished":
        return f"{rival['seconds']:,.1f}"
    if before := rival.get("because"):
        if rival["outcome"] == "out of memory":
            return f"out of memory at {short(before['edges'])} already"
        return f"not tried: {before['outcome']} at {short(before['edges'])}"
    if not rival["events"]:
        return str(rival["outcome"])
    share, held = rival["events"] / rival["edges"], rival["peak_bytes"] / GIB
    return f"{rival['outcome']} after {share:.2%} with {held:.1f} GiB"


def short(count: int) -> str:
    """Return a count as text: 1e7, not 1e+07."""
    return f"{count:.0e}".replace("e+0", "e")


def print_table(lines: list[Line]) -> None:
    table = Table(title="Random graphs of average degree 100, batches of 200 events, ranks of one thread")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "contestant" else "right")
    for row in rows_of(lines):
        table.add_row(*row)
    Console(width=200).print(table)


def write_markdown(lines: list[Line], path: Path) -> None:
    rows = [list(HEADINGS), ["---:" if heading != "contestant" else "---" for heading in HEADINGS]]
    rows += rows_of(lines)
    path.write_text("".join(f"| {' | '.join(row)} |\n" for row in rows))
