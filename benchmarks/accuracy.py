"""How accurate TPNet and the other models are on the datasets at hand, beside the paper's tables.

    python -m benchmarks.accuracy                                       # the built-in log, no data needed
    python -m benchmarks.accuracy --data data --seeds 0 1 2 3 4         # all of the paper's that are in data/
    python -m benchmarks.accuracy --data data/uci --models tpnet graphmixer --epochs 5 --curves --minutes 30
    python -m benchmarks.accuracy --data data/uci --studies ablations widths decays --models tpnet --epochs 20
    python -m benchmarks.accuracy --runs runs/uci-a runs/uci-b          # runs that exist already

Each seed of each variant is a run of its own by `torchrun -m tpnet_dist.train` with the dataset's preset,
kept in the folder of --out: the same command goes on where it was, and repeats no run that is finished.
With --minutes it stops in time, each run having had an equal share. Runs that are to go on are shown by their
best epoch so far, if --curves had each epoch evaluated.
Figures are of the test part at the best epoch by validation: AP and AUC, means over batches as in the paper,
transductive and inductive, against random, historical and inductive negatives; beside them EdgeBank by the
best of its modes, recency and popularity. Tables go to accuracy.md, figures to accuracy.jsonl, pictures to
accuracy, models, ablations, widths and decays .png and .svg.
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
from benchmarks.accuracy_sheets import sheets
from benchmarks.finished_runs import SeedResult, in_order, read_runs
from benchmarks.results_line import print_results_line
from benchmarks.sheet import Sheet
from benchmarks.study import StudyRun, leave_without_results, require_positive, train_all
from benchmarks.study_logs import StudyLog, builtin, find_logs
from benchmarks.variants import (
    DECAYS,
    MAY_OVERFLOW,
    PAPER_VARIANTS,
    VARIANTS,
    WHOLE,
    WIDTHS,
    decay_variant,
    is_whole,
    titles,
    width_variant,
)
from tpnet_dist.config.schema import Decay
from tpnet_dist.config.train_args import parse_train
from tpnet_dist.errors import InputError, errors_for_people
from tpnet_dist.files.atomic_write import atomic_write
from tpnet_dist.files.progress import display_for
from tpnet_dist.models.registry import MODELS

PROGRAM = "python -m benchmarks.accuracy"
BUILTIN_EPOCHS = 5
WITH_HEURISTICS = ("--evaluation.baseline", "all")
WIDTH_OF_TERMINAL = 160


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to train, or what was trained."""

    data: Annotated[tuple[str, ...], arg(metavar="DIR …")] = ()
    """Data folders named like presets, or folders of such; PRESET=DIR for one with another name."""
    runs: Annotated[tuple[Path, ...], arg(metavar="RUN …")] = ()
    """Train nothing: tabulate these runs, or all finished ones within these folders."""
    models: tuple[str, ...] = MODELS
    """Names of the models of the main tables; the other studies are of TPNet."""
    studies: tuple[Literal["main", "ablations", "widths", "decays"], ...] = ("main",)
    """The main tables, TPNet without some of its parts, TPNet with memories of other widths, TPNet with other
    λ."""
    seeds: tuple[int, ...] = (0, 1, 2)
    epochs: int | None = None
    """The most epochs; by default as the preset says, 5 on the built-in log."""
    ranks: int | None = None
    """The number of ranks of each run; by default one per GPU, or one."""
    variants: tuple[str, ...] = PAPER_VARIANTS[1:]
    """Names of the variants that the study of ablations trains."""
    widths: tuple[int, ...] = WIDTHS
    """Widths of the memory that the study of widths trains."""
    decays: tuple[float, ...] = DECAYS
    """λ, per second, that the study of decays trains; the preset's is not trained twice."""
    curves: bool = False
    """Evaluate the test part after each epoch too."""
    minutes: float | None = None
    """The most minutes that it may take."""
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
        for name in self.models:
            if name not in MODELS:
                raise InputError(f"--models holds {name!r}; choose among {', '.join(MODELS)}")
        for name in ("seeds", "studies", "models"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise InputError(f"--{name} is {values}, but must be distinct values; name each once")
        require_positive(epochs=self.epochs, ranks=self.ranks, minutes=self.minutes)
        if self.runs and self.data:
            raise InputError("--runs trains nothing and --data is to be trained on; give one of them")

    def names(self, own_decay: Decay) -> Iterator[str]:
        """Yield the names of the variants asked for; studies stand beside the whole of TPNet. `own_decay`:
        the preset's."""
        if "main" in self.studies:
            yield from (titles()[name] for name in self.models)
        if self.studies != ("main",):
            yield WHOLE
        if "ablations" in self.studies:
            yield from self.variants
        if "widths" in self.studies:
            yield from map(width_variant, self.widths)
        if "decays" in self.studies:
            yield from (decay_variant(rate) for rate in self.decays if rate != own_decay)


def main() -> None:
    settings = tyro.cli(Settings, prog=PROGRAM, description=__doc__, config=(FlagCreatePairsOff,))
    with errors_for_people(PROGRAM, debug=settings.debug):
        settings.check()
        results, failures = (read_runs(settings.runs), {}) if settings.runs else study(settings)
        if not results:
            leave_without_results(settings.out)
        report(settings, results, {str(run): why for run, why in failures.items()})
    if any(run.variant != MAY_OVERFLOW for run in failures):
        sys.exit(1)


def study(settings: Settings) -> tuple[list[SeedResult], dict[StudyRun, str]]:
    """Train what is not trained yet; results, and why some runs have none."""
    logs = find_logs(settings.data) if settings.data else [builtin()]
    runs, ranks = [run for log in logs for run in plan_runs(settings, log)], settings.ranks or _ranks_here()
    failures = train_all(runs, ranks, display_for(0), settings.minutes)
    results = [result for run in runs if run not in failures for result in run.results(ranks)]
    if not results and failures:
        raise InputError(f"no run came to results: {next(iter(failures.values()))}; correct it and repeat")
    return in_order(results), failures


def plan_runs(settings: Settings, log: StudyLog) -> list[StudyRun]:
    """Return the runs, seed by seed, so that all variants have figures early; how long they train is in the
    folder's name."""
    epochs = settings.epochs or (None if settings.data else BUILTIN_EPOCHS)
    args = ["--evaluation.negatives", *NEGATIVES]
    args += ["--evaluation.test-every-epoch", "True"] if settings.curves else []
    args += ["--config", str(settings.config)] if settings.config else []
    args += ["--training.epochs", str(epochs)] if epochs else []
    folder = settings.out / (f"{log.preset}-{epochs}-epochs" if epochs else log.preset)
    own_decay = parse_train([str(log.folder), "--preset", log.preset, *args]).config.memory.decay
    return [
        StudyRun(
            log,
            name,
            seed,
            folder / name.replace(" ", "-") / f"seed-{seed}",
            (*args, *WITH_HEURISTICS) if is_whole(name) else tuple(args),
        )
        for seed in settings.seeds
        for name in dict.fromkeys(settings.names(own_decay))
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
