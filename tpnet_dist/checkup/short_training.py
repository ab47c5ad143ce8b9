"""A short training by the command that users give, and what it came to: losses, AP, phases of a step."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from tpnet_dist.checkup.launched import run_ranks
from tpnet_dist.evaluation.results import read_results
from tpnet_dist.training.metrics_file import METRICS_NAME, StepLine, read_lines
from tpnet_dist.training.step_profile import PHASES_NAME, PROFILE_NAME, WARM_UP_STEPS


@dataclass(frozen=True, kw_only=True)
class ShortTraining:
    """The default model's training on some data, without dropout, whose masks differ between GPUs and
    CPUs."""

    data: Path
    steps: int
    batch_size: int

    @property
    def events(self) -> int:
        """The number of events with which an epoch has all steps after events of new nodes have left it."""
        return 2 * self.steps * self.batch_size + 200

    def flags(self, run_dir: Path) -> list[str]:
        profiled = max(1, self.steps - WARM_UP_STEPS)
        return [
            *(str(self.data), "--run-dir", str(run_dir), "--profile", str(profiled)),
            *("--memory.decay", "1e-6", "--training.learning-rate", "5e-4", "--training.epochs", "1"),
            *("--training.max-steps", str(self.steps), "--training.batch-size", str(self.batch_size)),
            *("--evaluation.batch-size", str(self.batch_size), "--model.dropout", "0"),
        ]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The results of a training."""

    device: str
    ranks: int
    losses: list[float]
    ap: float
    """AP of all validation events."""
    events_per_second: float
    peak_memory_bytes: int
    phase_seconds: list[dict[str, float]] = field(default_factory=list)
    """Seconds of each phase of a step, for each rank; `step` is the whole."""

    @property
    def name(self) -> str:
        return f"{self.ranks} {self.device.upper()} rank{'s' * (self.ranks > 1)}"

    @property
    def step_seconds(self) -> float:
        """The seconds of a step on the slowest rank."""
        return max((phases["step"] for phases in self.phase_seconds), default=0.0)


def train_shortly(what: ShortTraining, folder: Path, *, device: str, ranks: int) -> Trained:
    """Train the model for some steps; RanksFailedError if it fails."""
    run_dir = folder / f"run-{device}-{ranks}"
    run_ranks(
        ["tpnet_dist.train", *what.flags(run_dir)],
        ranks=ranks,
        on_gpus=device == "cuda",
        log=folder / f"{run_dir.name}.log",
    )
    results = read_results(run_dir)
    assert results is not None, run_dir
    speed = results.mean.events_per_second
    profile = run_dir / PROFILE_NAME / PHASES_NAME
    return Trained(
        device=device,
        ranks=ranks,
        losses=[line.loss for _, line in read_lines(run_dir / METRICS_NAME) if isinstance(line, StepLine)],
        ap=results.mean.val["transductive"]["random"]["ap"],
        events_per_second=(speed and speed.train) or 0.0,
        peak_memory_bytes=results.conditions.peak_memory_bytes or 0,
        phase_seconds=json.loads(profile.read_text()) if profile.exists() else [],
    )
