r"""What each part of TPNet brings: the paper's ablations, and the three walk matrices, on one log.

    python -m benchmarks.ablations                          # the built-in social log
    python -m benchmarks.ablations data/uci --preset uci --epochs 3
    python -m benchmarks.ablations data/uci --preset uci --epochs 3 --ranks 2 \
        --variants TPNet "bfloat16 exchange"

Each variant is a run by `torchrun -m tpnet_dist.train`, with the same seed and negatives, kept if --runs says
where; `python -m benchmarks.accuracy --studies main ablations` draws them beside the paper's.
"""

import math
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional, arg

from benchmarks.results_line import print_results_line
from benchmarks.study import launch
from benchmarks.variants import ROUNDED, VARIANTS
from tpnet_dist.evaluation.results import Figures, Results, read_results


@dataclass(kw_only=True)
class Settings:
    """The log, the variants, and how long they train."""

    data: Annotated[Positional[str], arg(metavar="[DATA_DIR]")] = ""
    """The data folder; by default the built-in log."""
    preset: str | None = None
    """Settings of one of the paper's datasets."""
    epochs: int = 5
    ranks: int = 1
    seeds: tuple[int, ...] = field(default=(0,))
    variants: tuple[str, ...] = field(default=tuple(name for name in VARIANTS if name != ROUNDED))
    """Names of variants; what the others lose is told against the first."""
    runs: Path | None = None
    """The folder of the runs, each under its variant's name; unfinished ones go on."""

    def __post_init__(self) -> None:
        for name in self.variants:
            if name not in VARIANTS:
                raise SystemExit(f"unknown variant {name!r}; choose among {', '.join(VARIANTS)}")


def run_variant(name: str, settings: Settings, folder: Path) -> Results | None:
    """Train a variant, and return its results; None where training came to nothing, as it may without
    scaling."""
    args = [settings.data] if settings.data else []
    args += ["--preset", settings.preset] if settings.preset else []
    args += ["--training.epochs", str(settings.epochs), "--run-dir", str(folder)]
    args += ["--training.seeds", *map(str, settings.seeds), *VARIANTS[name]]
    if subprocess.run(launch(args, settings.ranks), stdout=subprocess.DEVNULL).returncode:
        return None
    return read_results(folder)


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in settings.variants:
            results = run_variant(name, settings, (settings.runs or Path(scratch)) / name.replace(" ", "-"))
            found[name] = results.mean.test if results else {}
    print_table(found)
    print_results_line("ablations", {"epochs": settings.epochs, "test": found})


def print_table(found: dict[str, Figures]) -> None:
    """Print the variants' figures; differences are to the first variant."""
    table = Table(title="Test AP, random negatives")
    for heading in ("", "transductive", "inductive", "difference"):
        table.add_column(heading, justify="left" if not heading else "right")
    rows = {
        name: [ap_of(figures, "transductive"), ap_of(figures, "inductive")] for name, figures in found.items()
    }
    first = next(iter(rows.values()))[0]
    for name, (ap, inductive) in rows.items():
        table.add_row(name, f"{ap:.4f}", f"{inductive:.4f}", f"{ap - first:+.4f}")
    Console().print(table)


def ap_of(figures: Figures, setting: str) -> float:
    """Return the AP; NaN where there is none."""
    return float(figures.get(setting, {}).get("random", {}).get("ap", math.nan))


if __name__ == "__main__":
    main()
