"""How fast event logs are converted, made and read, and in how much memory.

    python -m benchmarks.event_logs                       # 1e7-row CSV, 1e8-event log
    python -m benchmarks.event_logs --rows 1e6 --events 1e7

Every stage runs in a process of its own. Files just written are in the page cache when they are read.
"""

import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.measured_process import Measured, run_python
from benchmarks.measuring import GIB
from benchmarks.results_line import print_results_line
from tpnet_dist.config.whole_numbers import Count

_READ_ALL = (
    "from tpnet_dist.events import EventLog; print(sum(len(e) for e in EventLog({folder!r}).stream()))"
)


@dataclass(kw_only=True)
class Settings:
    """How large, and where."""

    rows: Count = 10_000_000
    """Rows of the CSV to convert."""
    events: Count = 100_000_000
    """Events of the random log to make and read."""
    folder: Path | None = None
    """Where to work; by default a temporary folder that is removed afterwards."""


@dataclass(frozen=True)
class Stage:
    """One line of the result."""

    name: str
    events: int
    seconds: float
    events_per_second: float
    peak_gib: float


def run_stages(settings: Settings, folder: Path) -> list[Stage]:
    csv, log = folder / "log.csv", folder / "random"
    synth = ("-m", "data_prep", "synth")
    run_python(*synth, csv, "--kind", "random", "--events", settings.rows, "--as-csv")
    rows, events = settings.rows, settings.events
    stages = [
        _stage("convert CSV", rows, run_python("-m", "data_prep", "convert", csv, folder / "converted")),
        _stage(
            "convert --sort", rows, run_python("-m", "data_prep", "convert", csv, folder / "sorted", "--sort")
        ),
        _stage("synth random", events, run_python(*synth, log, "--kind", "random", "--events", events)),
        _stage("read", events, read := run_python("-c", _READ_ALL.format(folder=str(log)))),
        _stage("describe", events, run_python("-m", "data_prep", "describe", log, "--json")),
    ]
    assert int(read.output) == events, "every event was read"
    return stages


def _stage(name: str, events: int, measured: Measured) -> Stage:
    rate = events / measured.seconds
    return Stage(name, events, round(measured.seconds, 2), round(rate), round(measured.peak_bytes / GIB, 3))


def print_table(stages: list[Stage]) -> None:
    table = Table("stage", title="Event logs")
    for heading in ("events", "seconds", "events/s", "peak GiB"):
        table.add_column(heading, justify="right")
    for stage in stages:
        figures = (
            f"{stage.events:,}",
            f"{stage.seconds:.1f}",
            f"{stage.events_per_second:,}",
            f"{stage.peak_gib:.2f}",
        )
        table.add_row(stage.name, *figures)
    Console().print(table)


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    folder = settings.folder or Path(tempfile.mkdtemp(prefix="event-logs-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        stages = run_stages(settings, folder)
    finally:
        if settings.folder is None:
            shutil.rmtree(folder)
    print_table(stages)
    print_results_line("event_logs", {"stages": [asdict(stage) for stage in stages]})


if __name__ == "__main__":
    main()
