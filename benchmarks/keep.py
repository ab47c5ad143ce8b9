"""Keep what a benchmark found: its JSON line, as benchmarks/results/NAME.json.

    python -m benchmarks.neighbors --events 1e6 | python -m benchmarks.keep
    python -m benchmarks.exchange --data data/uci | python -m benchmarks.keep exchange_uci

All that comes in is shown; the last line is kept, with the date, commit, versions and machine it tells of.
NAME is by default the benchmark's. What was kept under the name before is replaced: Git has it.
"""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, arg

from tpnet_dist.errors import InputError, errors_for_people
from tpnet_dist.files.atomic_write import atomic_write

PROGRAM = "python -m benchmarks.keep"
KEYS = ("benchmark", "results", "date", "commit", "versions", "machine")
"""The keys without which nobody can tell what a figure is worth."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The name that a result is kept under, and the folder."""

    name: Annotated[Positional[str], arg(metavar="[NAME]")] = ""
    folder: Path = Path(__file__).parent / "results"
    debug: bool = False
    """Show the traceback of an error."""


def main() -> None:
    settings = tyro.cli(Settings, prog=PROGRAM, description=__doc__, config=(FlagCreatePairsOff,))
    with errors_for_people(PROGRAM, debug=settings.debug):
        last = ""
        for line in sys.stdin:
            print(line, end="", flush=True)
            last = line.strip() or last
        path = keep(last, settings.folder, settings.name)
        print(f"kept as {path}", file=sys.stderr)


def keep(line: str, folder: Path, name: str = "") -> Path:
    """Keep a line of results; return the file made of it."""
    content = _content(line)
    name = name or content["benchmark"]
    if not re.fullmatch(r"\w+", name):
        plain = re.sub(r"\W+", "_", name)
        raise InputError(
            f"the name is {name!r}, but must be of letters, digits and underscores; write {plain!r}"
        )
    path = folder / f"{name}.json"
    with atomic_write(path) as file:
        file.write(f"{json.dumps(content, indent=1, ensure_ascii=False)}\n".encode())
    return path


def _content(line: str) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except json.JSONDecodeError:
        content = None
    if not isinstance(content, dict):
        raise InputError(
            f"the last line is {line[:60]!r}, but must be a benchmark's JSON line; pipe one that succeeds"
        )
    if missing := [key for key in KEYS if key not in content]:
        raise InputError(
            f"the last line lacks {', '.join(missing)}, but must tell all of {', '.join(KEYS)}; measure again"
        )
    return content


if __name__ == "__main__":
    main()
