"""How fast event logs are converted, made and read, and in how much memory.

    python -m benchmarks.event_logs             # 1e7-row CSV, 1e8-event Parquet, 1e8-event log
    python -m benchmarks.event_logs --rows 1e6 --events 1e7 --text-ids 1e6
    python -m benchmarks.event_logs --parts parquet text

Every stage runs in a process of its own. Files just written are in the page cache when they are read.
"""

import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.measured_process import Measured, run_python
from benchmarks.measuring import GIB
from benchmarks.raw_parquet import write_raw_parquet
from benchmarks.results_line import print_results_line
from tpnet_dist.config.whole_numbers import Count

Part = Literal["csv", "parquet", "text", "random"]

_SYNTH, _CONVERT = ("-m", "data_prep", "synth"), ("-m", "data_prep", "convert")
_READ_ALL = (
    "from tpnet_dist.events import EventLog; print(sum(len(e) for e in EventLog({folder!r}).stream()))"
)


@dataclass(kw_only=True)
class Settings:
    """The sizes of the logs, the parts that are measured, and the folder."""

    rows: Count = 10_000_000
    """Rows of the CSV to convert."""
    events: Count = 100_000_000
    """Events of the Parquet files to convert, and of the random log to make and read."""
    text_ids: Count = 10_000_000
    """Distinct ids of the Parquet file whose ids are text."""
    parts: tuple[Part, ...] = get_args(Part)
    """csv, parquet with integer ids, parquet with text ids, an append of a tenth, and a log of our own."""
    folder: Path | None = None
    """The folder to work in; by default a temporary one that is removed afterwards."""


@dataclass(frozen=True)
class Stage:
    """One line of the result."""

    name: str
    events: int
    seconds: float
    events_per_second: float
    peak_gib: float


def run_stages(settings: Settings, folder: Path) -> list[Stage]:
    makers = {"csv": _csv, "parquet": _parquet, "text": _text, "random": _random}
    return [stage for part in settings.parts for stage in makers[part](settings, folder)]


def _csv(settings: Settings, folder: Path) -> list[Stage]:
    csv, rows = folder / "log.csv", settings.rows
    run_python(*_SYNTH, csv, "--kind", "random", "--events", rows, "--as-csv")
    stages = [
        _stage("convert CSV", rows, run_python(*_CONVERT, csv, folder / "converted")),
        _stage("convert --sort", rows, run_python(*_CONVERT, csv, folder / "sorted", "--sort")),
    ]
    _remove(csv, folder / "converted", folder / "sorted")
    return stages


def _parquet(settings: Settings, folder: Path) -> list[Stage]:
    """Measure Parquet files that have as many events per node as the paper's random graphs."""
    return _converted("Parquet", folder, settings.events, max(2, settings.events // 50), text=False)


def _text(settings: Settings, folder: Path) -> list[Stage]:
    return _converted("Parquet, text ids", folder, settings.events, settings.text_ids, text=True)


def _converted(name: str, folder: Path, events: int, nodes: int, *, text: bool) -> list[Stage]:
    raw, later, log = folder / "raw.parquet", folder / "later.parquet", folder / "log"
    write_raw_parquet(raw, events=events, nodes=nodes, text=text)
    stages = [_stage(f"convert {name}", events, run_python(*_CONVERT, raw, log))]
    _remove(raw)
    tenth = max(1, events // 10)
    write_raw_parquet(later, events=tenth, nodes=nodes, text=text, seed=1, after=events)
    stages.append(_stage(f"append {name}", tenth, run_python("-m", "data_prep", "append", later, log)))
    _remove(later, log)
    return stages


def _random(settings: Settings, folder: Path) -> list[Stage]:
    log, events = folder / "random", settings.events
    stages = [
        _stage("synth random", events, run_python(*_SYNTH, log, "--kind", "random", "--events", events)),
        _stage("read", events, read := run_python("-c", _READ_ALL.format(folder=str(log)))),
        _stage("describe", events, run_python("-m", "data_prep", "describe", log, "--json")),
    ]
    assert int(read.output) == events, "every event was read"
    return stages


def _remove(*paths: Path) -> None:
    for path in paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


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
