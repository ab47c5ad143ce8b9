"""How accurate TPNet is on the datasets at hand, beside the paper's tables.

    python -m benchmarks.accuracy                                       # the built-in log, no data needed
    python -m benchmarks.accuracy --data data --seeds 0 1 2 3 4         # all of the paper's that are in data/
    python -m benchmarks.accuracy --data data/uci --epochs 20 --studies main ablations widths
    python -m benchmarks.accuracy --runs runs/uci-a runs/uci-b          # runs that exist already

Each seed of each variant is a run of its own by `torchrun -m tpnet_dist.train` with the dataset's preset,
kept in the folder of --out: the same command goes on where it was, and repeats no run that is finished.
Figures are of the test part at the best epoch by validation: AP and AUC, means over batches as in the paper,
transductive and inductive, against random, historical and inductive negatives. Tables go to accuracy.md,
figures to accuracy.jsonl, pictures to accuracy, ablations and widths .png and .svg.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from tyro.conf import FlagCreatePairsOff, arg

from benchmarks.accuracy_figures import draw_figures
from benchmarks.accuracy_rows import NEGATIVES, Accuracy, accuracies
from benchmarks.accuracy_sheets import Sheet, sheets
from benchmarks.finished_runs import SeedResult, in_order, read_runs
from benchmarks.results_line import print_results_line
from benchmarks.study import StudyRun, train_all
from benchmarks.study_logs import StudyLog, builtin, find_logs
from benchmarks.variants import MAY_OVERFLOW, PAPER_VARIANTS, VARIANTS, WHOLE, WIDTHS, width_variant
from tpnet_dist.errors import InputError, errors_for_people
from tpnet_dist.files.atomic_write import atomic_write
from tpnet_dist.files.progress import display_for

PROGRAM = "python -m benchmarks.accuracy"
BUILTIN_EPOCHS = 5
WIDTH_OF_TERMINAL = 160


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to train, or what was trained."""

    data: Annotated[tuple[str, ...], arg(metavar="DIR …")] = ()
    """Data folders named like presets, or folders of such; PRESET=DIR for one with another name."""
    runs: Annotated[tuple[Path, ...], arg(metavar="RUN …")] = ()
    """Train nothing: tabulate these runs, or all finished ones within these folders."""
    studies: tuple[Literal["main", "ablations", "widths"], ...] = ("main",)
    """The main tables, TPNet without some of its parts, TPNet with memories of other widths."""
    seeds: tuple[int, ...] = (0, 1, 2)
    epochs: int | None = None
    """The most epochs; by default as the preset says, 5 on the built-in log."""
    ranks: int | None = None
    """The number of ranks of each run; by default one per GPU, or one."""
    variants: tuple[str, ...] = PAPER_VARIANTS[1:]
    """Names of the variants that the study of ablations trains."""
    widths: tuple[int, ...] = WIDTHS
    """Widths of the memory that the study of widths trains."""
    config: Path | None = None
    """A TOML file of further settings for all runs, such as launch/four_rtx_3090.toml."""
    out: Path = Path("build/accuracy")
    """The folder of runs, tables and pictures."""
    debug: bool = False
    """Show the traceback of an error."""

    def check(self) -> None:
        for name in self.variants:
            if name not in VARIANTS:
                raise InputError(f"--variants holds {name!r}; choose among {', '.join(VARIANTS)}")
        for name in ("seeds", "studies"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise InputError(f"--{name} is {values}, but must be distinct values; name each once")
        for name, number in (("epochs", self.epochs), ("ranks", self.ranks)):
            if number is not None and number < 1:
                raise InputError(f"--{name} is {number}, but must be at least 1; raise it")
        if self.runs and self.data:
            raise InputError("--runs trains nothing and --data is to be trained on; give one of them")

    def names(self) -> Iterator[str]:
        """Yield the names of the variants asked for."""
        yield WHOLE
        if "ablations" in self.studies:
            yield from self.variants
        if "widths" in self.studies:
            yield from map(width_variant, self.widths)


def main() -> None:
    settings = tyro.cli(Settings, prog=PROGRAM, description=__doc__, config=(FlagCreatePairsOff,))
    with errors_for_people(PROGRAM, debug=settings.debug):
        settings.check()
        results, failures = (read_runs(settings.runs), {}) if settings.runs else study(settings)
        report(settings, results, {str(run): why for run, why in failures.items()})
    if any(run.variant != MAY_OVERFLOW for run in failures):
        sys.exit(1)


def study(settings: Settings) -> tuple[list[SeedResult], dict[StudyRun, str]]:
    """Train what is not trained yet; results, and why some runs have none."""
    logs = find_logs(settings.data) if settings.data else [builtin()]
    runs = [run for log in logs for run in plan_runs(settings, log)]
    failures = train_all(runs, settings.ranks or _ranks_here(), display_for(0))
    results = [result for run in runs if run not in failures for result in run.results()]
    if not results:
        raise InputError(f"no run came to results: {next(iter(failures.values()))}; correct it and repeat")
    return in_order(results), failures


def plan_runs(settings: Settings, log: StudyLog) -> list[StudyRun]:
    """Return the runs, seed by seed, so that all variants have figures early; how long they train is in the
    folder's name."""
    epochs = settings.epochs or (None if settings.data else BUILTIN_EPOCHS)
    args = ["--evaluation.negatives", *NEGATIVES]
    args += ["--config", str(settings.config)] if settings.config else []
    args += ["--training.epochs", str(epochs)] if epochs else []
    folder = settings.out / (f"{log.preset}-{epochs}-epochs" if epochs else log.preset)
    return [
        StudyRun(log, name, seed, folder / name.replace(" ", "-") / f"seed-{seed}", tuple(args))
        for seed in settings.seeds
        for name in dict.fromkeys(settings.names())
    ]


def report(settings: Settings, results: list[SeedResult], failures: dict[str, str]) -> None:
    """Show the tables on the terminal, and write tables and pictures to files."""
    rows = accuracies(results)
    made, console = sheets(results, rows), Console(width=WIDTH_OF_TERMINAL)
    console.print(*(sheet.for_terminal() for sheet in made), sep="\n")
    for run, why in failures.items():
        console.print(f"{run}: {why}", highlight=False)
    settings.out.mkdir(parents=True, exist_ok=True)
    written = [*write_tables(settings.out, made, rows, failures), *draw_figures(rows, settings.out)]
    console.print("written: " + ", ".join(map(str, written)), highlight=False, soft_wrap=True)
    lines: list[dict[str, Any]] = [row.as_line() for row in rows]
    print_results_line("accuracy", {"figures": lines, "failures": failures})


def write_tables(
    folder: Path, made: list[Sheet], rows: list[Accuracy], failures: dict[str, str]
) -> list[Path]:
    text = "# Accuracy\n\n" + "\n".join(sheet.as_markdown() for sheet in made)
    text += "".join(f"\n{run}: {why}\n" for run, why in failures.items())
    lines = "".join(f"{json.dumps(row.as_line())}\n" for row in rows)
    contents = {folder / "accuracy.md": text, folder / "accuracy.jsonl": lines}
    for path, content in contents.items():
        with atomic_write(path) as file:
            file.write(content.encode())
    return list(contents)


def _ranks_here() -> int:
    import torch

    return torch.cuda.device_count() or 1


if __name__ == "__main__":
    main()
