"""How fast links are scored, ranked and observed by raw ids, and in how much memory a file is scored.

    python -m benchmarks.predict [--data DIR] [--pairs 1e6] [--observed 2e4] [--sources 20] [--threads 1]

Without --data on a random log as large as UCI: 59,835 events, 1,899 nodes. Weights are as drawn: speed does
not depend on what they are. The file is scored by the command line, in a process of its own; its peak is
compared with that of the same command on a single pair.
"""

import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.measured_process import run_python
from benchmarks.measuring import StopWatch, seconds_of
from benchmarks.results_line import print_results_line
from data_prep.synth import make_log
from tpnet_dist.config.keys import values_of
from tpnet_dist.config.schema import Config, DataConfig, MemoryConfig
from tpnet_dist.config.whole_numbers import Count
from tpnet_dist.events.reader import EventLog
from tpnet_dist.models.registry import spec_of
from tpnet_dist.prediction.predictor import Predictor
from tpnet_dist.training.step_folder import FORMAT

UCI_EVENTS, UCI_DEGREE, UCI_DECAY = 59_835, 63, 1e-7
EVENTS_PER_BATCH = 200
TARGET_EVENTS_PER_SECOND = 20_000


@dataclass(kw_only=True)
class Settings:
    """The log, and how many pairs, links, sources and events are measured on it."""

    data: Path | None = None
    """A data folder; by default a random log of UCI's size."""
    events: Count = UCI_EVENTS
    """The number of events of the random log."""
    pairs: Count = 1_000_000
    """The number of pairs scored from a file."""
    links: Count = 20_000
    """The number of links scored in one call."""
    sources: Count = 20
    """The number of sources whose destinations are ranked, each against all."""
    observed: Count = 20_000
    """The number of events that are observed, in calls of 200 and one by one."""
    threads: int = 1
    """The number of torch's threads."""


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    torch.set_num_threads(settings.threads)
    os.environ["OMP_NUM_THREADS"] = str(settings.threads)  # of the processes started here
    with tempfile.TemporaryDirectory(prefix="predict-") as name:
        folder = Path(name)
        data = settings.data or random_data(folder / "log", settings.events)
        checkpoint = untrained_checkpoint(data, folder / "drawn.pt")
        results = {
            **measure_calls(checkpoint, settings),
            **measure_file(checkpoint, EventLog(data), folder, settings.pairs),
        }
    show(results)
    print_results_line("predict", {**asdict(settings), "data": str(settings.data or "random"), **results})


def random_data(folder: Path, events: int) -> Path:
    make_log(folder, kind="random", events=events, average_degree=UCI_DEGREE)
    return folder


def untrained_checkpoint(data: Path, path: Path) -> Path:
    """Save the published model with weights as drawn, as a run would keep it."""
    config = Config(data=DataConfig(folder=str(data)), memory=MemoryConfig(decay=UCI_DECAY))
    log = EventLog(data)
    facts = {"epoch": 0, "seed": 0, "log_id": log.manifest.log_id, "config": dict(values_of(config))}
    torch.save(
        {"format": FORMAT, "model": spec_of(config).make(config, log.shape).state_dict(), **facts}, path
    )
    return path


def measure_calls(checkpoint: Path, settings: Settings) -> dict[str, Any]:
    watch = StopWatch()
    predictor = Predictor.load(checkpoint)
    load_seconds = watch.lap()
    draw = np.random.default_rng(0)
    raw = predictor.ids.raw_of(predictor.ids.destinations())
    features = predictor.edge_width

    def ends(count: int) -> tuple[Any, Any]:
        return raw[draw.integers(0, len(raw), count)], raw[draw.integers(0, len(raw), count)]

    def observe(count: int, size: int) -> None:
        src, dst = ends(count)
        times = predictor.now + np.arange(1, count + 1)
        rows = draw.standard_normal((count, features)).astype(np.float32) if features else None
        for start in range(0, count, size):
            here = slice(start, start + size)
            predictor.observe(src[here], dst[here], times[here], None if rows is None else rows[here])

    observe(10 * EVENTS_PER_BATCH, EVENTS_PER_BATCH)  # to warm up
    observe_seconds = seconds_of(lambda: observe(settings.observed, EVENTS_PER_BATCH))
    one_by_one = max(1, settings.observed // EVENTS_PER_BATCH)
    single_seconds = seconds_of(lambda: observe(one_by_one, 1))
    score_seconds = seconds_of(lambda: predictor.score(*ends(settings.links), predictor.now + 1))
    rank_seconds = seconds_of(lambda: predictor.top_k(ends(settings.sources)[0], predictor.now + 1, 10))
    return {
        "nodes": len(raw),
        "load_events_per_second": len(predictor.log) / load_seconds,
        "observe_events_per_second": settings.observed / observe_seconds,
        "observe_target": TARGET_EVENTS_PER_SECOND,
        "observe_one_by_one_per_second": one_by_one / single_seconds,
        "score_pairs_per_second": settings.links / score_seconds,
        "top_k_pairs_per_second": settings.sources * len(raw) / rank_seconds,
    }


def measure_file(checkpoint: Path, log: EventLog, folder: Path, count: int) -> dict[str, Any]:
    """Measure the command line with all pairs, and with one alone, which shows what loading takes."""
    raw = log.raw_ids().column("raw_id").to_numpy()
    draw = np.random.default_rng(1)
    alone, whole = (
        run_python(
            *("-m", "tpnet_dist.predict", checkpoint, "--out", folder / "scores.parquet"),
            *("--pairs", _write_pairs(folder / "pairs.csv", draw.choice(raw, (size, 2)))),
        )
        for size in (1, count)
    )
    return {
        "file_pairs_per_second": (count - 1) / max(whole.seconds - alone.seconds, 1e-9),
        "file_peak_bytes": whole.peak_bytes,
        "file_bytes_above_model": whole.peak_bytes - alone.peak_bytes,
    }


def _write_pairs(path: Path, pairs_X2: npt.NDArray[Any]) -> Path:
    with path.open("w") as file:
        file.write("src,dst\n")
        file.writelines(f"{src},{dst}\n" for src, dst in pairs_X2)
    return path


def show(results: dict[str, Any]) -> None:
    table = Table("what", "figure")
    for name, value in results.items():
        is_size = "bytes" in name
        shown = f"{value / 2**20:,.0f} MiB" if is_size else f"{value:,.0f}"
        table.add_row(name.replace("_", " "), shown)
    Console().print(table)


if __name__ == "__main__":
    main()
