"""`metrics.jsonl` as curves: losses by step, figures by epoch, and where the time of each epoch went."""

import math
from dataclasses import dataclass, field
from pathlib import Path

from tpnet_dist.training.metrics_file import EpochLine, StepLine, read_lines


@dataclass
class EpochTime:
    """Seconds of one epoch, by the times at which lines were written."""

    training: float = 0.0
    evaluation: float = 0.0


@dataclass
class Curve:
    """The losses and figures that one seed wrote."""

    losses: dict[int, float] = field(default_factory=dict)
    """Losses by step of the optimizer."""
    last_steps: dict[int, int] = field(default_factory=dict)
    """The latest step of each epoch."""
    epochs: dict[int, EpochLine] = field(default_factory=dict)
    """The line of figures of each epoch; one repeated after a restart counts once, as it was last."""
    times: dict[int, EpochTime] = field(default_factory=dict)

    def figure(self, epoch: int, part: str, setting: str, metric: str) -> float | None:
        """Return a figure of an epoch, against the one kind of negatives that epochs are evaluated with."""
        line = self.epochs[epoch]
        by_kind = {"val": line.val, "test": line.test}[part].get(setting, {})
        for metrics in by_kind.values():
            value = metrics.get(metric, math.nan)
            # what is no number has no place in a figure
            return float(value) if math.isfinite(value) else None
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

    def epoch_lines(self) -> list[EpochLine]:
        """Return the lines of all seeds."""
        return [line for curve in self.by_seed.values() for line in curve.epochs.values()]


def read_curves(path: Path) -> Curves:
    """Read the curves of a run; one that has written nothing yet has none."""
    curves = Curves()
    seed, seconds = None, 0.0
    for _, line in read_lines(path):
        if line is None:
            curves.damaged_lines += 1
            continue
        curve = curves.by_seed.setdefault(line.seed, Curve())
        _add(curve, line)
        # before a seed's first line lie the evaluation of the one before and the start of this one
        if seed == line.seed or seed is None:
            _add_time(curve, line, line.seconds - seconds if line.seconds >= seconds else line.seconds)
        seed, seconds = line.seed, line.seconds
    return curves


def _add(curve: Curve, line: StepLine | EpochLine) -> None:
    curve.last_steps[line.epoch] = line.step
    if isinstance(line, EpochLine):
        curve.epochs[line.epoch] = line
    elif math.isfinite(line.loss):
        curve.losses[line.step] = line.loss


def _add_time(curve: Curve, line: StepLine | EpochLine, seconds: float) -> None:
    time = curve.times.setdefault(line.epoch, EpochTime())
    if isinstance(line, EpochLine):
        time.evaluation += seconds
    else:
        time.training += seconds
