"""`tpnet tune DATA --grid key=a,b …`: one training for each combination of settings, and one table."""

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tpnet_dist.config.toml_files import CONFIG_NAME
from tpnet_dist.config.tune_args import PROGRAM, Cell, Tuning, parse_tune
from tpnet_dist.errors import InputError, errors_for_people, leave, spoken
from tpnet_dist.files.child_process import ends_with_parent

if TYPE_CHECKING:
    from tpnet_dist.report.run_list import RunRow

REPORT_NAME = "report.html"


def main() -> None:
    with errors_for_people(PROGRAM, debug="--debug" in sys.argv):
        _run(parse_tune(sys.argv[1:]))


def _run(tuning: Tuning) -> None:
    tuning.folder.mkdir(parents=True, exist_ok=True)
    if (tuning.folder / CONFIG_NAME).exists():
        raise InputError(f"{tuning.folder}: holds a run of its own; choose another --run-dir")
    for number, cell in enumerate(tuning.cells, 1):
        where = f"training {number} of {len(tuning.cells)}, {cell.name}"
        if _is_finished(tuning.folder / cell.name):
            _say(f"{where}: finished before")
            continue
        _say(where)
        code = _train(cell, tuning.folder / cell.name)
        if code:
            # it has said why
            leave(code)
    _show(tuning)


def _is_finished(run: Path) -> bool:
    """Return whether the training is done; one that is not, or that may last longer now, decides itself."""
    from tpnet_dist.evaluation.results import RESULTS_NAME

    return (run / RESULTS_NAME).exists()


def _train(cell: Cell, run: Path) -> int:
    """Train in a process of its own, which ranks may follow; return its exit code."""
    command = [sys.executable, "-m", "tpnet_dist", "train", *cell.args, "--run-dir", str(run)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=ends_with_parent)
    while True:
        try:
            code = process.wait()
            return code if code >= 0 else 128 - code
        except KeyboardInterrupt:
            continue  # it was told too, and saves


def _show(tuning: Tuning) -> None:
    from rich.console import Console

    from tpnet_dist.report.page import write_page
    from tpnet_dist.report.run_list import list_runs, sorted_by
    from tpnet_dist.runs import print_table

    names = {cell.name for cell in tuning.cells}
    rows = [row for row in sorted_by(list_runs(tuning.folder), "val_ap") if row.run in names]
    print_table(rows, Console())
    page = write_page([tuning.folder / row.run for row in rows], tuning.folder / REPORT_NAME)
    _say(f"{page}: all trainings side by side, to be opened in any browser")
    _say(_best(rows[0], tuning))


def _best(best: "RunRow", tuning: Tuning) -> str:
    config = tuning.folder / best.run / CONFIG_NAME
    return f"best by validation: {best.run}; {config} has its settings, for --config of a longer training"


def _say(what: str) -> None:
    print(f"{spoken(PROGRAM)}: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
