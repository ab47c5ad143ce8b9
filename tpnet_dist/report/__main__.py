"""`python -m tpnet_dist.report RUN [RUN …]`: what runs came to, as one HTML page to read and to show."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from tpnet_dist.config.args import require_place
from tpnet_dist.config.commands import CommandParser
from tpnet_dist.errors import InputError, errors_for_people
from tpnet_dist.files.user_paths import resolved

PROGRAM = "python -m tpnet_dist.report"
SUFFIXES = {".html", ".htm"}


@dataclass(kw_only=True)
class ReportCommand:
    """Write one HTML page about runs, finished or not; it needs no other file, no script and no network.

    Example: tpnet report runs/uci runs/uci-timestamps --out uci.html
    """

    runs: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN …")]
    """Folders of runs; those that differ in nothing but the seed are taken together."""
    out: Annotated[Path, arg(metavar="FILE.html")] = Path("report.html")
    """The file of the page; one that is there is replaced."""
    debug: bool = False
    """Show the traceback of an error."""


def parse_report(args: list[str]) -> ReportCommand:
    """Parse the arguments; InputError with one sentence where they cannot be used."""
    command = CommandParser(ReportCommand, PROGRAM, "runs", "run").parse(args)
    if command.out.suffix.lower() not in SUFFIXES:
        page = command.out.parent / f"{command.out.stem}.html"
        raise InputError(f"--out is {command.out}, but must end in .html; write {page}")
    if len(set(map(resolved, command.runs))) < len(command.runs):
        raise InputError("a run is given twice; give each once")
    return command


def main() -> None:
    with errors_for_people(PROGRAM, debug="--debug" in sys.argv):
        _run(parse_report(sys.argv[1:]))


def _run(command: ReportCommand) -> None:
    require_place(command.out, "--out")
    # --help and a wrong flag are not to wait for it
    from tpnet_dist.report.page import write_page

    size = write_page(command.runs, command.out).stat().st_size
    print(f"{command.out}: {size / 1e3:,.0f} KB, to be opened in any browser")


if __name__ == "__main__":
    main()
