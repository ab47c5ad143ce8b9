"""`metrics.jsonl`, line by line: what training wrote of its steps and epochs, read by whoever wants it."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Literal

from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.results import ExchangeVolume, Figures
from tpnet_dist.files.stored_json import is_intact_line, parse_json
from tpnet_dist.files.typed_json import from_json

METRICS_NAME = "metrics.jsonl"
_LAST_BYTES = 1 << 16
"""The bytes at the end of the file in which the last whole line is."""


@dataclass(frozen=True, kw_only=True)
class MetricsLine:
    """Holds what every line says."""

    seed: int
    epoch: int
    """The number of the epoch, from 1 on."""
    step: int
    """Steps of the optimizer so far, over all epochs."""
    seconds: float
    """Seconds of training so far, over all processes of the run; it never goes back."""


@dataclass(frozen=True, kw_only=True)
class StepLine(MetricsLine):
    """Holds the line of one step."""

    kind: Literal["step"]
    loss: float
    running_ap: float | None = None


@dataclass(frozen=True, kw_only=True)
class EpochLine(MetricsLine):
    """Holds the line of one epoch and of the evaluation after it."""

    kind: Literal["eval"]
    train_loss: float
    val: Figures = field(default_factory=dict)
    test: Figures = field(default_factory=dict)
    exchange: dict[str, float] = field(default_factory=dict)
    """The amounts that ranks exchanged; empty on one rank."""


def parse_line(text: str) -> StepLine | EpochLine:
    """Read one line; raise InputError if it is damaged. Figures may be NaN."""
    content = parse_json(text)
    if isinstance(content, dict) and not is_intact_line(content):
        raise InputError("its checksum is missing or does not fit it, so it was changed")
    is_epoch = isinstance(content, dict) and content.get("kind") == "eval"
    if is_epoch:
        return from_json(EpochLine, content, allow_nan=True)
    return from_json(StepLine, content, allow_nan=True)


def read_lines(path: Path) -> Iterator[tuple[str, StepLine | EpochLine | None]]:
    """Yield each whole line with what it says, None for a damaged one; nothing if nothing was written yet.

    A line without an end is being written, or was when the process was killed: it is left out. Only where it
    holds more than a whole object was its end changed.
    """
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            if text.endswith("\n"):
                yield text, _parsed(text)
            elif _goes_on_after_its_object(text):
                yield f"{text}\n", None


def last_line(path: Path) -> StepLine | EpochLine | None:
    """Return the last whole line that is not damaged, without reading those before it."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _LAST_BYTES))
        lines = file.read().decode(errors="replace").split("\n")[:-1]
    # the first may be half a line, which cannot be parsed
    return next((line for text in reversed(lines) if (line := _parsed(text)) is not None), None)


def mean_exchange(lines: Iterable[EpochLine]) -> ExchangeVolume | None:
    """Return the mean over epochs; None where ranks exchanged nothing."""
    told = [
        (line.exchange["bytes_per_event"], line.exchange["remote_rows_held"])
        for line in lines
        if line.exchange.keys() >= {"bytes_per_event", "remote_rows_held"}
    ]
    if not told:
        return None
    volume, share = (fmean(values) for values in zip(*told, strict=True))
    return ExchangeVolume(bytes_per_event=volume, remote_rows_held=share)


def _goes_on_after_its_object(text: str) -> bool:
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return end < len(text)


def _parsed(text: str) -> StepLine | EpochLine | None:
    try:
        return parse_line(text)
    except InputError:
        return None
