"""`python -m benchmarks.candidates --run RUN`: what candidates for top-k leave out, and what they save.

The test part's last sources are ranked among all destinations and among candidates of each kind; recall@k is
the share of the exact best k that are among the k best of the candidates.
"""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import tyro
from rich.console import Console
from rich.table import Table
from tyro.conf import arg

from benchmarks.results_line import print_results_line
from tpnet_dist.errors import errors_for_people
from tpnet_dist.events.view import EventView
from tpnet_dist.prediction.predictor import Predictor

PROGRAM = "python -m benchmarks.candidates"


@dataclass(frozen=True, kw_only=True)
class Settings:
    run: Annotated[Path, arg(metavar="RUN")]
    """The folder of a run."""
    sources: int = 50
    """How many of the latest sources are ranked for."""
    k: int = 20
    """How many destinations each gets."""
    counts: tuple[int, ...] = (50, 100, 200, 500)
    """How many candidates each gets."""


@dataclass(frozen=True, kw_only=True)
class Row:
    candidates: str
    count: int
    recall: float
    sources_per_second: float


def main() -> None:
    settings = tyro.cli(Settings, prog=PROGRAM, description=__doc__)
    with errors_for_people(PROGRAM, debug=False):
        predictor = Predictor.load(settings.run)
        rows = measure(predictor, settings)
    show(rows, settings)
    found = {"rows": [asdict(row) for row in rows], "nodes": predictor.log.num_nodes}
    print_results_line("candidates", {**asdict(settings), "run": settings.run.name, **found})


def measure(predictor: Predictor, settings: Settings) -> list[Row]:
    sources = latest_sources(predictor, settings.sources)
    num_all = len(predictor.ids.destinations())
    exact, seconds = timed(predictor, sources, settings.k, "all", num_all)
    rows = [Row(candidates="all", count=num_all, recall=1.0, sources_per_second=len(sources) / seconds)]
    for count in (count for count in settings.counts if settings.k <= count < num_all):
        for strategy in ("recent", "popular", "two-hop"):
            found, seconds = timed(predictor, sources, settings.k, strategy, count)
            hits = [np.isin(wanted, some).mean() for wanted, some in zip(exact, found, strict=True)]
            rate = len(sources) / seconds
            rows.append(
                Row(candidates=strategy, count=count, recall=float(np.mean(hits)), sources_per_second=rate)
            )
    return rows


def latest_sources(predictor: Predictor, count: int) -> list[object]:
    """Return distinct sources of the log's last events, by the user's ids."""
    log = predictor.log
    columns = EventView(log, 0, len(log)).read(max(0, len(log) - 100 * count), len(log)).columns
    distinct = list(dict.fromkeys(columns.src[::-1].tolist()))[:count]
    named: list[object] = predictor.ids.raw_of(np.array(distinct)).tolist()
    return named


def timed(
    predictor: Predictor, sources: list[object], k: int, strategy: str, count: int
) -> tuple[npt.NDArray[Any], float]:
    predictor.top_k(sources[:1], predictor.now, k, strategy, count=count)
    started = time.perf_counter()
    best = predictor.top_k(sources, predictor.now, k, strategy, count=count)
    return best.destinations, time.perf_counter() - started


def show(rows: list[Row], settings: Settings) -> None:
    table = Table(title=f"Top {settings.k} of {settings.sources} sources", title_justify="left", box=None)
    for heading in ("candidates", "count", f"recall@{settings.k}", "sources/s"):
        table.add_column(heading, justify="left" if heading == "candidates" else "right")
    for row in rows:
        speed = f"{row.sources_per_second:,.2f}"
        table.add_row(row.candidates, f"{row.count:,}", f"{row.recall:.3f}", speed)
    Console().print(table)


if __name__ == "__main__":
    main()
