"""Losses and running AP of training steps. Looked at every few steps, so that steps need not wait."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.exchange_stats import ExchangeStats, RowTraffic
from tpnet_dist.distributed.gather import gather_varied, sum_over_ranks
from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.metrics import average_precision
from tpnet_dist.files.progress import Display
from tpnet_dist.training.progress import Progress
from tpnet_dist.training.run_log import RunLog
from tpnet_dist.training.train_step import StepOutcome

BATCHES_PER_LOOK = 10
"""The number of batches after which losses are looked at, over several steps; a step of more batches is
looked at by itself."""


def remedy_of(config: Config, progress: Progress, saved: str) -> str:
    """Return what to do about a loss that is no number. `saved`: the step of its last checkpoint, if it has
    one."""
    scale = "" if getattr(config.model, "scale", True) else " or with model.scale true"
    advice = [f"start again in another --run-dir with a lower training.learning_rate{scale}"]
    if progress.best_epoch >= 0:
        advice.append("--model.weights takes the best.pt of this one")
    if saved:
        advice.append(f"its last checkpoint, of {saved}, is from before")
    return "; ".join(advice)


@dataclass(frozen=True)
class _Step:
    number: int
    epoch: int
    batches: range
    num_events: int
    outcome: StepOutcome


@dataclass
class StepMeter:
    """Measures losses, AP and exchange of steps. Every rank must add the same steps."""

    seed: int
    progress: Progress
    """The progress of the seed, whose sum of losses grows with the steps looked at."""
    log: RunLog | None
    display: Display
    stats: ExchangeStats
    """The exchange's counts for the memory's rows on this rank."""
    remedy: Callable[[], str]
    """Returns what to do about a loss that is no number."""
    batches_per_step: int = 1
    _before: RowTraffic = field(init=False)
    """The traffic of earlier epochs and evaluations; it is subtracted."""
    _bytes_seen: int = field(init=False)
    _events: int = 0
    _waiting: list[_Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._before = self.stats.row_traffic()
        self._bytes_seen = self._before.bytes_received

    @property
    def has_seen_all(self) -> bool:
        """Return whether no step waits to be looked at; all ranks get the same answer after the same step."""
        return not self._waiting

    def add(self, outcome: StepOutcome, *, batches: range, num_events: int) -> None:
        """Add the step that was counted last."""
        progress = self.progress
        self._waiting.append(_Step(progress.step, progress.epoch, batches, num_events, outcome))
        if len(self._waiting) >= BATCHES_PER_LOOK // self.batches_per_step:
            self.look()

    def look(self) -> None:
        """Wait for the steps added, write them down, and stop a run that has lost its way."""
        steps, self._waiting = self._waiting, []
        if not steps:
            return
        losses = sum_over_ranks(torch.stack([step.outcome.loss for step in steps])).tolist()
        ap = _running_ap(steps)
        for step, loss in zip(steps, losses, strict=True):
            if not math.isfinite(loss):
                where = f"epoch {step.epoch + 1}, step {step.number}, {_counted(step.batches)}"
                raise InputError(f"loss is {loss} in {where}, but must be finite; {self.remedy()}")
            if self.log is not None:
                values = {"seed": self.seed, "epoch": step.epoch + 1, "loss": loss, "running_ap": ap}
                self.log.write("step", step.number, values)
            # one by one, so that a run that goes on adds up the same to the last bit
            self.progress.loss_sum += loss
        num_events = sum(step.num_events for step in steps)
        self._events += num_events
        note = f"loss {np.mean(losses):.4f}, AP {ap:.4f}{self._received(num_events)}"
        self.display.advance(num_events, note)

    def _received(self, num_events: int) -> str:
        """Return what this rank received for these events, as text; empty on one rank."""
        received = self.stats.bytes_received - self._bytes_seen
        self._bytes_seen += received
        return f", {received / num_events / 1e3:.1f} KB/event to each rank" if received else ""

    def exchanged(self, device: torch.device) -> dict[str, float]:
        """Return what rows between ranks took, over all steps and ranks; empty on one rank."""
        traffic = zip(self.stats.row_traffic(), self._before, strict=True)
        totals = torch.tensor([now - before for now, before in traffic], dtype=torch.float64, device=device)
        received, needed, borrowed = sum_over_ranks(totals).tolist()
        if not needed or not self._events:
            return {}
        return {"bytes_per_event": received / self._events, "remote_rows_held": 1 - borrowed / needed}


def _counted(batches: range) -> str:
    """Return the batches in words, counted from 1 on, as epochs and steps are."""
    first, last = batches.start + 1, batches.stop
    return f"batch {first}" if first == last else f"batches {first}…{last}"


def _running_ap(steps: list[_Step]) -> float:
    """Return the AP over the links of all these steps together."""
    positive = torch.cat(gather_varied(torch.cat([step.outcome.positive for step in steps])))
    negative = torch.cat(gather_varied(torch.cat([step.outcome.negative for step in steps])))
    scores = torch.cat([positive, negative]).nan_to_num()
    is_event = np.repeat([True, False], [len(positive), len(negative)])
    return average_precision(is_event, scores.cpu().numpy())
