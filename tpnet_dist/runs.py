"""`tpnet runs [DIR]`: a table of the runs in a folder."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from tpnet_dist.config.commands import CommandParser
from tpnet_dist.errors import InputError, errors_for_people

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tpnet_dist.report.run_list import RunRow

PROGRAM = "python -m tpnet_dist.runs"
_UNBOUNDED = 10_000


@dataclass(kw_only=True)
class RunsCommand:
    """List runs: dataset, model, state, settings in which they differ, and their figures.

    Figures are transductive ones against the first kind of negatives of each run; of a run that is not
    finished, the best validation so far.

    Example: tpnet runs runs/tuned --sort val_ap
    """

    folder: Annotated[Positional[Path], arg(metavar="[DIR]")] = Path("runs")
    """The folder that holds runs, or one run."""
    sort: Annotated[str, arg(metavar="COLUMN")] = "run"
    """By run, dataset, model, state, seconds, finished, val_ap, test_ap, test_auc or test_mrr; figures best
    first."""
    json: bool = False
    """Print the rows as JSON."""
    debug: bool = False
    """Show the traceback of an error."""


def parse_runs(args: list[str]) -> RunsCommand:
    return CommandParser(RunsCommand, PROGRAM, "folder", "folder of runs").parse(args)


def main() -> None:
    with errors_for_people(PROGRAM, debug="--debug" in sys.argv):
        _run(parse_runs(sys.argv[1:]))


def _run(command: RunsCommand) -> None:
    from rich.console import Console

    from tpnet_dist.report.run_list import COLUMNS, list_runs, sorted_by

    if command.sort not in COLUMNS:
        raise InputError(f"--sort is {command.sort}, but must be one of {', '.join(COLUMNS)}; choose one")
    rows = sorted_by(list_runs(command.folder), command.sort)
    if command.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print_table(rows, Console())


def print_table(rows: "Sequence[RunRow]", console: "Console") -> None:
    """Print it as wide as its cells, wherever it goes."""
    table = table_of(rows)
    table.width = console.measure(table, options=console.options.update_width(_UNBOUNDED)).maximum
    console.print(table, crop=False, soft_wrap=True)


def table_of(rows: "Sequence[RunRow]") -> "Table":
    """Columns with nothing in them are left out."""
    from rich.table import Table

    from tpnet_dist.report.run_list import TEXT

    settings = list(dict.fromkeys(key for row in rows for key in row.settings))
    cells = {
        **{name: [str(getattr(row, name)) for row in rows] for name in TEXT},
        **{key: [_setting(row.settings.get(key)) for row in rows] for key in settings},
        **{
            heading: [_figure(getattr(row, name)) for row in rows]
            for name, heading in (
                ("val_ap", "val AP"),
                ("test_ap", "test AP"),
                ("test_auc", "test AUC"),
                ("test_mrr", "test MRR"),
            )
        },
        "seconds": [f"{row.seconds:,.0f}" for row in rows],
        "finished": [row.finished or "" for row in rows],
    }
    shown = {heading: column for heading, column in cells.items() if any(column)}
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in shown:
        is_number = heading.startswith(("val ", "test ")) or heading == "seconds"
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=True)
    for number in range(len(rows)):
        table.add_row(*(column[number] for column in shown.values()))
    return table


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _setting(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


if __name__ == "__main__":
    main()
