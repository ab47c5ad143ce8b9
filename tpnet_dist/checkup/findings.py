"""What a checkup found: facts, verdicts and figures, as text to paste and as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tpnet_dist.checkup.short_training import Trained
from tpnet_dist.files.readable import readable_bytes
from tpnet_dist.sizing.show import LIMITS
from tpnet_dist.training.step_profile import DEVICE_PHASES, EXCHANGE_PHASES, IDLE, MODEL_PHASES, ON_DEVICE

WIDTH = 26
"""The width of the first column."""
MOST_RELATIVE = {"cpu": 1e-6, "cuda": 1e-3}
"""The largest relative difference of a loss from one CPU rank's: Adam's first steps are as long for gradients
of rounding alone, and rounding on GPUs is another."""


@dataclass(frozen=True)
class Verdict:
    """One thing that was checked."""

    name: str
    ok: bool
    detail: str

    def line(self) -> str:
        return _line(self.name, f"{'ok' if self.ok else 'differs'}: {self.detail}")


@dataclass(frozen=True)
class Prediction:
    """What the planner expects of a step."""

    ranks: int
    device: str
    """The device, cpu or cuda."""
    title: str
    """The planner's title of the device."""
    step_seconds: float
    bottleneck: str
    parts: Mapping[str, float]
    """Seconds of a step by what takes them."""


@dataclass
class Findings:
    """All that a checkup found."""

    facts: Mapping[str, str]
    verdicts: list[Verdict] = field(default_factory=list)
    trainings: list[Trained] = field(default_factory=list)
    predictions: list[Prediction] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return all(verdict.ok for verdict in self.verdicts)

    def summary(self) -> str:
        wrong = [verdict.name for verdict in self.verdicts if not verdict.ok]
        if not wrong:
            return f"ok: all {len(self.verdicts)} checks passed in {self.seconds:.0f} s"
        return f"differs: {', '.join(wrong)}; {len(self.verdicts) - len(wrong)} other checks passed"

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "summary": self.summary(),
            "facts": dict(self.facts),
            "verdicts": [vars(verdict) for verdict in self.verdicts],
            "trainings": [vars(trained) | {"name": trained.name} for trained in self.trainings],
            "predictions": [vars(prediction) for prediction in self.predictions],
            "seconds": self.seconds,
        }

    def text(self) -> str:
        lines = ["tpnet_dist doctor", *(_line(name, fact) for name, fact in self.facts.items()), ""]
        lines += [verdict.line() for verdict in self.verdicts]
        if self.trainings:
            lines += ["", *_speed(self.trainings, self.predictions), "", *_phases(self.trainings)]
        if self.predictions:
            lines += ["", *_predicted_parts(self.trainings, self.predictions)]
        return "\n".join([*lines, "", _line("verdict", self.summary())])


def losses_agree(reference: Trained, other: Trained) -> Verdict:
    """Return whether each step of a training had the loss of the reference."""
    name = f"losses of {other.name}"
    if len(other.losses) != len(reference.losses):
        return Verdict(name, False, f"{len(other.losses)} steps, {reference.name} {len(reference.losses)}")
    relative = [
        abs(mine - wanted) / abs(wanted) for mine, wanted in zip(other.losses, reference.losses, strict=True)
    ]
    worst = max(relative)
    most = MOST_RELATIVE[other.device]
    # a loss that is not a number is no agreement either
    agrees = all(each <= most for each in relative)
    steps = f"{len(relative)} steps, against {reference.name}"
    if not worst and agrees:
        return Verdict(name, True, f"equal to the last bit in all {steps}")
    step = relative.index(worst) + 1
    detail = f"at most {worst:.1e} apart, in step {step} of {steps} (up to {most:g} is rounding)"
    return Verdict(name, agrees, f"{detail}; AP {other.ap:.4f} and {reference.ap:.4f}")


def _speed(trainings: list[Trained], predictions: list[Prediction]) -> list[str]:
    lines = [_row("", "events/s", "ms per step", "predicted", "limited by", "peak memory")]
    for trained in trainings:
        own = _prediction_of(trained, predictions)
        predicted = f"{1e3 * own.step_seconds:,.1f}" if own else "-"
        lines.append(
            _row(
                trained.name,
                f"{trained.events_per_second:,.0f}",
                f"{1e3 * trained.step_seconds:,.1f}",
                predicted,
                own.bottleneck if own else "-",
                readable_bytes(trained.peak_memory_bytes),
            )
        )
    return lines


def _phases(trainings: list[Trained]) -> list[str]:
    """Return the milliseconds of a step by phase, of the mean rank."""
    lines = [_row("ms per step, mean rank", *(trained.name for trained in trainings))]
    for phase in (*MODEL_PHASES, IDLE, *EXCHANGE_PHASES):
        cells = (f"{1e3 * _mean(trained, phase):,.1f}" for trained in trainings)
        lines.append(_row(f"{phase} (beside)" if phase in EXCHANGE_PHASES else phase, *cells))
    if any(trained.device == "cuda" for trained in trainings):
        lines += [
            _row(phase, *(f"{1e3 * _mean(trained, phase):,.1f}" for trained in trainings))
            for phase in map(ON_DEVICE.format, DEVICE_PHASES)
        ]
    return lines


def _predicted_parts(trainings: list[Trained], predictions: list[Prediction]) -> list[str]:
    """Return the milliseconds of a step that the planner expects each part of the work to take."""
    own = [_prediction_of(trained, predictions) for trained in trainings]
    lines = [_row("ms per step, predicted", *(trained.name for trained in trainings))]
    for part, title in LIMITS.items():
        cells = (f"{1e3 * each.parts.get(part, 0.0):,.1f}" if each else "-" for each in own)
        lines.append(_row(title, *cells))
    return lines


def _prediction_of(trained: Trained, predictions: list[Prediction]) -> Prediction | None:
    of = (trained.ranks, trained.device)
    return next((each for each in predictions if (each.ranks, each.device) == of), None)


def _mean(trained: Trained, phase: str) -> float:
    ranks = trained.phase_seconds
    return sum(seconds.get(phase, 0.0) for seconds in ranks) / max(1, len(ranks))


def _line(name: str, text: str) -> str:
    return f"{name:<{WIDTH}} {text}"


def _row(name: str, *cells: str) -> str:
    return f"{name:<{WIDTH}}" + "".join(f" {cell:>13}" for cell in cells)
