"""`metrics.jsonl` as curves: losses by step, figures by epoch, and where the time of each epoch went."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Line = dict[str, Any]


@dataclass
class EpochTime:
    """Seconds of one epoch, by the times at which lines were written."""

    training: float = 0.0
    evaluation: float = 0.0


@dataclass
class Curve:
    """What one seed wrote."""

    losses: dict[int, float] = field(default_factory=dict)
    """By step of the optimizer."""
    last_steps: dict[int, int] = field(default_factory=dict)
    """By epoch: its latest step."""
    epochs: dict[int, Line] = field(default_factory=dict)
    """By epoch: its line of figures; one repeated after a restart counts once, as it was last."""
    times: dict[int, EpochTime] = field(default_factory=dict)

    def figure(self, epoch: int, part: str, setting: str, metric: str) -> float | None:
        """Of the negatives an epoch is evaluated with, of which there is one kind."""
        by_kind = self.epochs[epoch].get(part, {}).get(setting, {})
        for metrics in by_kind.values():
            value = metrics.get(metric)
            # what is no number has no place in a figure
            return float(value) if value is not None and math.isfinite(value) else None
        return None


@dataclass
class Curves:
    """All of a run."""

    by_seed: dict[int, Curve] = field(default_factory=dict)
    damaged_lines: int = 0
    """Left out; half a line at the end, which a run that goes on is writing, is none of them."""

    @property
    def last_step(self) -> int:
        return max((step for curve in self.by_seed.values() for step in curve.losses), default=0)

    @property
    def last_epoch(self) -> int:
        return max((epoch for curve in self.by_seed.values() for epoch in curve.epochs), default=0)


def read_curves(path: Path) -> Curves:
    """A run that has written nothing yet has no curves."""
    curves = Curves()
    if not path.is_file():
        return curves
    seed, seconds = None, 0.0
    for line in _lines(path, curves):
        curve = curves.by_seed.setdefault(line["seed"], Curve())
        _add(curve, line)
        # before a seed's first line lie the evaluation of the one before and the start of this one
        if seed == line["seed"] or seed is None:
            _add_time(
                curve, line, line["seconds"] - seconds if line["seconds"] >= seconds else line["seconds"]
            )
        seed, seconds = line["seed"], line["seconds"]
    return curves


def _lines(path: Path, curves: Curves) -> Iterator[Line]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                line = _checked(json.loads(text))
            except (ValueError, KeyError, TypeError):
                curves.damaged_lines += text.endswith("\n")
            else:
                yield line


def _checked(line: Line) -> Line:
    """With the numbers every line has, as numbers."""
    whole = {name: int(line[name]) for name in ("seed", "epoch", "step")}
    name = {"step": "loss", "eval": "train_loss"}[line["kind"]]
    return {**line, **whole, "seconds": float(line["seconds"]), name: float(line[name])}


def _add(curve: Curve, line: Line) -> None:
    epoch, step = line["epoch"], line["step"]
    curve.last_steps[epoch] = step
    if line["kind"] == "eval":
        curve.epochs[epoch] = line
    elif math.isfinite(line["loss"]):
        curve.losses[step] = line["loss"]


def _add_time(curve: Curve, line: Line, seconds: float) -> None:
    time = curve.times.setdefault(line["epoch"], EpochTime())
    if line["kind"] == "eval":
        time.evaluation += seconds
    else:
        time.training += seconds
