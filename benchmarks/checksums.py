"""What it costs to compare stored files with their checksums when they are read.

    python -m benchmarks.checksums --events 1e6 --width 172

Each file is read with checksums and without: shards from start to end, features by batches of neighbours as
training asks for them, the best weights of a model of default size. Files are in the page cache.
"""

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import seconds_of
from benchmarks.results_line import print_results_line
from data_prep.synth import make_log
from tpnet_dist.config.whole_numbers import Count
from tpnet_dist.events.features import EDGE_FEATURES_NAME, CheckedFeatures, FeatureWriter
from tpnet_dist.events.reader import EventLog
from tpnet_dist.models.tpnet.model import TPNet
from tpnet_dist.training.weights_file import read_state, write_state

BATCH, SLOTS = 200, 3 * 20
REACH = 50_000
"""Neighbours are among so many latest events."""


@dataclass(kw_only=True)
class Settings:
    """How much is read."""

    events: Count = 1_000_000
    width: Count = 172
    """The width of edge features."""


@dataclass(frozen=True)
class Cost:
    """Seconds to read all once."""

    what: str
    megabytes: float
    without: float
    with_checksums: float


def shards_cost(folder: Path, events: int) -> Cost:
    make_log(folder / "log", kind="random", events=events)
    log = EventLog(folder / "log")

    def read() -> None:
        sum(len(chunk) for chunk in EventLog(folder / "log").stream())

    size = sum(shard.bytes for shard in log.manifest.shards)
    read()
    with patch("tpnet_dist.events.page_checksums.PageCheck.require", lambda *_: None):
        without = seconds_of(read)
    return Cost("shards, from start to end", size / 1e6, without, seconds_of(read))


def features_cost(folder: Path, events: int, width: int) -> Cost:
    draw = np.random.default_rng(0)
    with FeatureWriter(folder / EDGE_FEATURES_NAME, width) as writer:
        for first in range(0, events, 50_000):
            writer.append(draw.random((min(50_000, events - first), width), np.float32))
    record = writer.record()

    def read() -> None:
        features = CheckedFeatures(folder / EDGE_FEATURES_NAME, record)
        for now in range(BATCH, events, BATCH):
            features[draw.integers(max(0, now - REACH), now, (BATCH, SLOTS))]

    read()
    with patch("tpnet_dist.events.page_checksums.PageCheck.require", lambda *_: None):
        without = seconds_of(read)
    return Cost("features, by neighbours", record.bytes / 1e6, without, seconds_of(read))


def weights_cost(folder: Path) -> Cost:
    model, path = TPNet(), folder / "best.pt"
    write_state(path, {"model": model.state_dict()})
    read_state(path)
    without = seconds_of(lambda: torch.load(path, weights_only=True))
    return Cost("best weights", path.stat().st_size / 1e6, without, seconds_of(lambda: read_state(path)))


def main(settings: Settings) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        costs = [
            shards_cost(folder, settings.events),
            features_cost(folder, settings.events, settings.width),
            weights_cost(folder),
        ]
    table = Table("read", "MB", "without, s", "with, s", "more, s")
    for cost in costs:
        more = cost.with_checksums - cost.without
        numbers = (cost.megabytes, cost.without, cost.with_checksums, more)
        table.add_row(cost.what, *(f"{number:,.3f}" for number in numbers))
    Console().print(table)
    print_results_line("checksums", {**asdict(settings), "costs": [asdict(cost) for cost in costs]})


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
