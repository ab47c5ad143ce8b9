"""What each part of TPNet brings: the paper's ablations, and the three walk matrices, on one log.

    python -m benchmarks.ablations                          # the built-in social log
    python -m benchmarks.ablations data/uci --preset uci --epochs 3

Each variant is a run of its own by `python -m tpnet_dist.train`, with the same seed and negatives.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional, arg

from benchmarks.results_line import print_results_line

VARIANTS = {
    "TPNet": [],
    "without node representations": ["--memory.enabled", "False"],
    "without time": ["--memory.decay", "0"],
    "without scaling": ["--model.scale", "False"],
    "walk counts": ["--memory.walk", "count"],
    "transition probabilities": ["--memory.walk", "transition"],
    "1 hop": ["--memory.hops", "1"],
    "2 hops": ["--memory.hops", "2"],
}


@dataclass(kw_only=True)
class Settings:
    """Which log, and for how long."""

    data: Annotated[Positional[str], arg(metavar="[DATA_DIR]")] = ""
    """The data folder; by default the built-in log."""
    preset: str | None = None
    """Settings of one of the paper's datasets."""
    epochs: int = 5
    ranks: int = 1
    seeds: tuple[int, ...] = field(default=(0,))
    variants: tuple[str, ...] = field(default=tuple(VARIANTS))
    """By name."""


def run_variant(name: str, settings: Settings, folder: Path) -> dict[str, Any]:
    command = [sys.executable]
    if settings.ranks > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={settings.ranks}"]
    command += ["-m", "tpnet_dist.train", *([settings.data] if settings.data else [])]
    command += ["--preset", settings.preset] if settings.preset else []
    command += ["--training.epochs", str(settings.epochs), "--run-dir", str(folder)]
    command += ["--training.seeds", *map(str, settings.seeds), *VARIANTS[name]]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    results: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return results


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(settings.variants):
            found[name] = run_variant(name, settings, Path(folder) / str(number))["test"]
    table = Table(title="Test AP, random negatives")
    for heading in ("", "transductive", "inductive", "difference"):
        table.add_column(heading, justify="left" if not heading else "right")
    whole = found[settings.variants[0]]["transductive"]["random"]["ap"]
    for name, figures in found.items():
        ap = figures["transductive"]["random"]["ap"]
        inductive = figures.get("inductive", {}).get("random", {}).get("ap", float("nan"))
        table.add_row(name, f"{ap:.4f}", f"{inductive:.4f}", f"{ap - whole:+.4f}")
    Console().print(table)
    print_results_line("ablations", {"epochs": settings.epochs, "test": found})


if __name__ == "__main__":
    main()
