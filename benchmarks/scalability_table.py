"""Figures of the scalability study: what the ranks took, put together, as a table for people."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import GIB, Quantiles
from tpnet_dist.config import Config
from tpnet_dist.events.reader import EventLog
from tpnet_dist.training.memory_sizes import memory_width

PHASES = ("neighbours", "rows", "propagation", "training", "scoring")
Line = dict[str, Any]

HEADINGS = (
    "edges",
    "contestant",
    "neighbours s",
    "propagation s",
    "events/s",
    "ns/event·float",
    "training P50 ms",
    "scoring P50 ms",
    "peak GiB per rank",
    "of it rows",
    "bytes/event",
)


def summarise(log: EventLog, ranks: list[dict[str, Any]]) -> Line:
    """One case; a phase is over when the last rank is."""
    config = Config()
    width, layers = memory_width(config.memory, log), config.memory.hops + 1
    seconds = {phase: max(rank["seconds"][phase] for rank in ranks) for phase in PHASES}
    batch_size = config.training.batch_size
    recorded = batch_size * ranks[0]["exchanged"]["propagation"]["batches"]
    per_event = seconds["propagation"] / recorded
    return {
        "nodes": log.num_nodes,
        "width": width,
        "device_type": ranks[0]["device"],
        "seconds": seconds,
        "recorded_events": recorded,
        "events_per_second": 1 / per_event,
        "ns_per_event_and_float": 1e9 * per_event / (layers * width),
        "training": _steps([rank["training_steps"] for rank in ranks], batch_size),
        "scoring": _steps([rank["scoring_steps"] for rank in ranks], batch_size),
        "peak_bytes": max(rank["peak_bytes"]["scoring"] for rank in ranks),
        "peak_bytes_of_all": sum(rank["peak_bytes"]["scoring"] for rank in ranks),
        "peak_bytes_by_phase": {
            name: max(rank["peak_bytes"][name] for rank in ranks) for name in ("start", *PHASES)
        },
        "device_peak_bytes": max(rank["device_peak_bytes"] for rank in ranks),
        "rows_bytes": max(rank["rows_bytes"] for rank in ranks),
        "neighbor_bytes": max(rank["neighbor_bytes"] for rank in ranks),
        "exchanged": {phase: _exchanged(ranks, phase, batch_size) for phase in PHASES[2:]},
    }


def _steps(seconds_of_ranks: list[list[float]], batch_size: int) -> dict[str, float]:
    seconds = np.max(seconds_of_ranks, axis=0)
    quantiles = Quantiles.of(seconds)
    rate = batch_size * len(seconds) / float(seconds.sum())
    return {"p50_ms": 1e3 * quantiles.p50, "p90_ms": 1e3 * quantiles.p90, "events_per_second": rate}


def _exchanged(ranks: list[dict[str, Any]], phase: str, batch_size: int) -> dict[str, float]:
    of_ranks = [rank["exchanged"][phase] for rank in ranks]
    batches = of_ranks[0]["batches"]
    sent = [one["bytes_sent"] for one in of_ranks]
    return {
        "bytes_sent": sum(sent),
        "bytes_per_event": sum(sent) / (batch_size * batches),
        "collectives_per_batch": of_ranks[0]["collectives"] / batches,
    }


def cells(line: Line) -> list[str]:
    edges = f"{line['edges']:.0e}".replace("e+0", "e")
    if line["contestant"] == "ours":
        return [
            edges,
            f"ours, {line['ranks']} rank{'s' * (line['ranks'] > 1)}",
            f"{line['seconds']['neighbours']:,.1f}",
            f"{line['seconds']['propagation']:,.1f}",
            f"{line['events_per_second']:,.0f}",
            f"{line['ns_per_event_and_float']:.2f}",
            f"{line['training']['p50_ms']:,.0f}",
            f"{line['scoring']['p50_ms']:,.0f}",
            f"{line['peak_bytes'] / GIB:.2f}",
            f"{line['rows_bytes'] / GIB:.2f}",
            f"{line['exchanged']['propagation']['bytes_per_event']:,.0f}",
        ]
    name = {"dense": "dense decay", "stored": "stored matrices"}[line["contestant"]]
    if line["outcome"] == "finished":
        how_far = f"{line['seconds']:,.1f}"
    else:
        share = line["events"] / line["edges"]
        how_far = f"{line['outcome']}, {share:.2%} done" if line["events"] else line["outcome"]
    rate = f"{line['events'] / line['seconds']:,.0f}" if line["events"] else "–"
    peak = f"{line['peak_bytes'] / GIB:.2f}" if line["events"] else "–"
    return [edges, name, "–", how_far, rate, "–", "–", "–", peak, "–", "–"]


def print_table(lines: list[Line]) -> None:
    table = Table(title="Random graphs of average degree 100, batches of 200 events, ranks of one thread")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "contestant" else "right")
    for line in lines:
        table.add_row(*cells(line))
    Console(width=170).print(table)


def write_markdown(lines: list[Line], path: Path) -> None:
    rows = [list(HEADINGS), ["---:" if heading != "contestant" else "---" for heading in HEADINGS]]
    rows += [cells(line) for line in lines]
    path.write_text("".join(f"| {' | '.join(row)} |\n" for row in rows))
