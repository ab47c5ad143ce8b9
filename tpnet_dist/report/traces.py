"""Seconds by phase from the traces that `--profile` leaves: one file per rank."""

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODEL_PHASES = {
    "wait": "waiting for rows",
    "make batch": "making batches",
    "score": "scoring",
    "backward": "backward, with what it waits for other ranks' gradients",
    "optimizer": "optimizer",
    "idle": "idle: what of a step is in no phase",
}
"""One after another, in this order; the last is what is left."""
EXCHANGE_PHASES = {"plan": "plan", "fetch": "fetch", "record": "record"}
"""Phases in a thread of their own, beside those of the model."""
_NAME = re.compile(r"rank-(\d+)\.json\.gz")


@dataclass(frozen=True)
class PhaseSeconds:
    """Seconds of one rank, per step."""

    rank: int
    steps: int
    seconds: dict[str, float]


def read_phases(folder: Path) -> list[PhaseSeconds]:
    """Read seconds by rank; a trace that cannot be read is left out."""
    named = [(int(match[1]), path) for path in folder.glob("rank-*") if (match := _NAME.fullmatch(path.name))]
    found = (_read(rank, path) for rank, path in sorted(named))
    return [phases for phases in found if phases is not None]


def _read(rank: int, path: Path) -> PhaseSeconds | None:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            events: list[dict[str, Any]] = json.load(file)["traceEvents"]
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None
    spans = [event for event in events if event.get("cat") == "user_annotation"]
    whole = [_seconds(event) for event in spans if event["name"].startswith("ProfilerStep")]
    if not whole:
        return None
    seconds = {
        phase: sum(_seconds(event) for event in spans if event["name"] == phase) / len(whole)
        for phase in (*MODEL_PHASES, *EXCHANGE_PHASES)
    }
    in_phases = sum(seconds[phase] for phase in MODEL_PHASES)
    seconds["idle"] = max(0.0, sum(whole) / len(whole) - in_phases)
    return PhaseSeconds(rank, len(whole), seconds)


def _seconds(event: dict[str, Any]) -> float:
    return float(event.get("dur", 0.0)) / 1e6
