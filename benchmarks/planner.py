"""Does the planner predict what the scalability study measured on this machine?

    python -m tpnet_dist.plan --calibrate build/here.toml
    python -m benchmarks.scalability --edges 1e5 1e6 1e7
    python -m benchmarks.planner --device build/here.toml

For each case of the study: memory of the largest rank and step times by the cost model, fed with this
machine's calibrated figures; bytes exchanged by planning the batches of the log for every rank. Where ranks
recorded by columns, what they swapped in the end follows from the log's size; where they recorded by node,
bytes are left out of logs above --most-edges. And for each figure whether it is near enough: memory within
10 %, steps within 30 %, bytes exact. If one is not, the exit code is 1.
"""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table
from tyro.conf import FlagCreatePairsOff

from benchmarks.results_line import print_results_line
from benchmarks.scalability_rank import WARM_UP_STEPS
from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.blocks import Blocks, even_borders
from tpnet_dist.errors import InputError, errors_for_people
from tpnet_dist.events.reader import EventLog
from tpnet_dist.sizing.data_traffic import DataTraffic
from tpnet_dist.sizing.devices import Device, device_named
from tpnet_dist.sizing.exchange_count import RowTraffic, TrafficCounter, mean_traffic
from tpnet_dist.sizing.memory_sizes import memory_nodes, memory_width, row_bytes_of
from tpnet_dist.sizing.rank_bytes import rank_bytes
from tpnet_dist.sizing.step_time import scoring_step_time, training_step_time

PROGRAM = "python -m benchmarks.planner"
PHASES = ("propagation", "training", "scoring")
STEPS = {"training": training_step_time, "scoring": scoring_step_time}
TOLERANCES = {
    "memory": 0.10,
    "training_ms": 0.30,
    "scoring_ms": 0.30,
    **{f"{phase}_bytes": 0.0 for phase in PHASES},
}
"""The share of what is measured by which a figure may miss it; bytes may not at all."""
Line = dict[str, Any]


@dataclass(kw_only=True)
class Settings:
    """The machine's description and the study that the planner's figures are compared with."""

    device: str
    """A file that `tpnet_dist.plan --calibrate` wrote on this machine."""
    study: Path = Path("build/scalability")
    logs: Path = Path("build/scalability/logs")
    """The folder of the study's logs."""
    most_edges: float = 1e7
    """The edges of the largest log whose bytes are compared if it was recorded by node: planning takes
    long."""
    report_only: bool = False
    """End with exit code 0 also when a figure is not near enough, as in a study that is short and noisy."""


def compare(line: Line, folder: Path, device: Device, *, count_recording: bool = True) -> Line:
    """Compare predicted and measured figures of one case; None for bytes that were not counted."""
    config, data, ranks = Config(), DataTraffic(EventLog(folder), Config()), line["ranks"]
    steps = line["circumstances"]["steps"] + WARM_UP_STEPS
    by_node = line["layout"] == "nodes" and ranks > 1
    is_counted = count_recording or not by_node
    counter = TrafficCounter(config, data.shape, ranks, line["borrowed_rows"])
    traffic = traffic_of(data, counter, ranks, steps, count_recording=count_recording and by_node)
    # the study has one neighbour index, of all events
    shape = replace(data.shape, train_share=0.0)
    borrowed_rows = rank_bytes(config, shape, ranks, device).borrowed_rows
    # a run of epochs fills its slots; so few steps take what they put into them
    held = max(one.num_held for one in counter.borrowed)
    filled = replace(config, memory=replace(config.memory, borrowed_rows=held))
    sizes = rank_bytes(filled, shape, ranks, device)
    sent = {phase: sum(one.bytes for one in of_ranks) for phase, of_ranks in traffic.items()}
    if not by_node:
        sent["propagation"] = bytes_of_swap(config, data.shape, ranks)
    measured = {phase: line["exchanged"][phase]["bytes_sent"] for phase in PHASES}
    figures = {
        "memory": pair(sizes.total, line["peak_bytes"]),
        **{
            f"{phase}_ms": pair(
                1e3 * step_time(config, data.shape, ranks, device, mean_traffic(traffic[phase])).seconds,
                line[phase]["p50_ms"],
            )
            for phase, step_time in STEPS.items()
        },
        **{f"{phase}_bytes": pair(sent[phase], measured[phase]) if is_counted else None for phase in PHASES},
    }
    return {
        "edges": line["edges"],
        "ranks": ranks,
        "layout": line["layout"],
        "borrowed_rows": {
            **pair(borrowed_rows, line["borrowed_rows"]),
            "held": pair(held, line["borrowed_rows_held"]),
        },
        "parts": dict(sizes.parts()),
        **{name: both and {**both, "is_within": is_within(name, both)} for name, both in figures.items()},
    }


def is_within(name: str, both: dict[str, float]) -> bool:
    """Return whether a figure is as near to the measured one as it has to be."""
    return abs(both["predicted"] - both["measured"]) <= TOLERANCES[name] * both["measured"]


def traffic_of(
    data: DataTraffic, counter: TrafficCounter, num_ranks: int, steps: int, *, count_recording: bool
) -> dict[str, list[RowTraffic]]:
    """Return traffic by phase and rank, as the study goes: record all but the last batches, learn from the
    next, score.

    Recording by columns leaves no row of others behind: without counting it, the steps come to the same.
    """
    first = len(data.plan) - 2 * steps
    ranks, found = range(num_ranks), dict[str, list[RowTraffic]]()
    if count_recording:
        found["propagation"] = counter.count([data.recorded(first) for _ in ranks], read=False)
    found["training"] = counter.count([data.learned(rank, num_ranks, first, first + steps) for rank in ranks])
    found["scoring"] = counter.count([data.learned(rank, num_ranks, first + steps) for rank in ranks])
    return found


def bytes_of_swap(config: Config, log: LogShape, num_ranks: int) -> int:
    """Return the bytes that all ranks send: each has some columns of all nodes, and keeps those of its own
    nodes."""
    nodes, width = memory_nodes(config, log), memory_width(config.memory, log)
    blocks, columns = Blocks(nodes, num_ranks), even_borders(width, num_ranks)
    sent = sum(
        (nodes - len(range(*blocks.range_of(rank)))) * (columns[rank + 1] - columns[rank])
        for rank in range(num_ranks)
    )
    return sent * row_bytes_of(config, log) // width


def pair(predicted: float, measured: float) -> dict[str, float]:
    ratio = predicted / measured if measured else float(predicted == measured)
    return {"predicted": predicted, "measured": measured, "ratio": ratio}


def print_table(figures: list[Line]) -> None:
    table = Table("edges", "ranks", title="Predicted / measured, and whether that is near enough")
    for name, tolerance in TOLERANCES.items():
        rule = f"within {tolerance:.0%}" if tolerance else "exact"
        table.add_column(f"{name.replace('_', ' ')}, {rule}", justify="right")
    for line in figures:
        cells = [_cell(name, line[name]) for name in TOLERANCES]
        table.add_row(f"{line['edges']:.0e}", str(line["ranks"]), *cells)
    Console(width=190).print(table)


def _cell(name: str, both: dict[str, float] | None) -> str:
    if both is None:
        return "–"
    unit = 2**20 if name == "memory" else 1
    verdict = "yes" if both["is_within"] else "NO"
    return (
        f"{both['predicted'] / unit:,.0f} / {both['measured'] / unit:,.0f} = {both['ratio']:.2f}: {verdict}"
    )


def all_within(figures: list[Line]) -> dict[str, bool]:
    """Return for each figure whether it is near enough in every case that has it."""
    return {name: all(line[name]["is_within"] for line in figures if line[name]) for name in TOLERANCES}


def main() -> None:
    settings = tyro.cli(Settings, prog=PROGRAM, description=__doc__, config=(FlagCreatePairsOff,))
    with errors_for_people(PROGRAM, debug=False):
        missed = _run(settings)
    if missed and not settings.report_only:
        sys.exit(1)


def _run(settings: Settings) -> list[str]:
    """Compare the figures, and return those that are not near enough in every case."""
    device, file = device_named(settings.device), settings.study / "figures.jsonl"
    if not file.exists():
        raise InputError(f"{file}: there is no study; run python -m benchmarks.scalability first")
    lines = [json.loads(text) for text in file.read_text().splitlines()]
    newest = {(line["edges"], line["ranks"]): line for line in lines if line["contestant"] == "ours"}
    if not newest:
        raise InputError(f"{file}: has no case of ours to compare with; run the study with --ranks 1 2")
    if any("layout" not in line for line in newest.values()):
        raise InputError(f"{file}: is of an older version; remove it, and run the study anew")
    figures = [
        compare(
            line,
            settings.logs / f"random-{line['edges']}",
            device,
            count_recording=line["edges"] <= settings.most_edges,
        )
        for line in newest.values()
    ]
    print_table(figures)
    within = all_within(figures)
    missed = [name.replace("_", " ") for name, is_met in within.items() if not is_met]
    print(f"Not near enough in every case: {', '.join(missed)}." if missed else "All are near enough.")
    print_results_line("planner", {"device": vars(device), "all_within": within, "figures": figures})
    return missed


if __name__ == "__main__":
    main()
