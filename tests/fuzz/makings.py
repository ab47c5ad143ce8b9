"""What is damaged: a raw file, a data folder with features, and a run trained on it, each of the smallest."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import data_prep.__main__ as data_prep
import tpnet_dist.predict as predict
import tpnet_dist.train as train
from tests.support.command_line import run_here
from tests.support.training_runs import flags_of, small_config

EVENTS = 240


@dataclass
class Makings:
    """All that is made lies in one folder."""

    root: Path
    flags: tuple[str, ...] = ()
    """What the run was trained with."""
    scores: str = ""
    """What the run's weights come to for two links."""
    intact: dict[str, Any] = field(default_factory=dict)
    """What reading each kind of stored files comes to."""

    @property
    def raw(self) -> Path:
        return self.root / "raw.csv"

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def best(self) -> Path:
        return self.run / "checkpoints" / "seed-0" / "best.pt"

    def place(self) -> Path:
        """An empty folder for one case, in the place of that of the case before."""
        place = self.root / "case"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return place


def make_all(folder: Path) -> Makings:
    """Make them with the commands; deterministic."""
    folder.mkdir(exist_ok=True)
    made = Makings(folder)
    rows = (f"{i % 13},{i * i % 11},{i},{i % 7 / 7:.3f},{i % 5}" for i in range(EVENTS))
    made.raw.write_text("src,dst,time,w,x\n" + "\n".join(rows) + "\n")
    _run(data_prep.main, "convert", made.raw, made.log, "--features", "w,x", "--shard-events", 100)
    config = small_config(made.log, training={"epochs": 2})
    made.flags = (*flags_of(config), "--checkpoint.every-steps", "2")
    _run(train.main, made.log, "--run-dir", made.run, *made.flags)
    place = made.place()
    write_two_links(place / "pairs.csv")
    _run(predict.main, made.run, "--pairs", place / "pairs.csv", "--out", place / "scores.csv")
    made.scores = (place / "scores.csv").read_text()
    return made


def write_two_links(path: Path) -> None:
    path.write_text("src,dst\n1,2\n3,4\n")


def _run(main: Callable[[], None], *args: object) -> None:
    done = run_here(main, *args)
    assert done.returncode == 0, done.stderr
