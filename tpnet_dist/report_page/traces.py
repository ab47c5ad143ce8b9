"""Seconds by phase from the traces that `--profile` leaves: one file per rank."""

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODEL_PHASES = {
    "wait": "waiting for rows",
    "query": "putting queries together",
    "score": "scoring",
    "backward": "backward, with what it waits for other ranks' gradients",
    "optimizer": "optimizer",
}
"""One after another, in this order."""
EXCHANGE_PHASES = {"plan": "plan", "fetch": "fetch", "record": "record"}
"""In a thread of their own, beside those of the model."""
_NAME = re.compile(r"rank-(\d+)\.json\.gz")


@dataclass(frozen=True)
class PhaseSeconds:
    """Of one rank, per step."""

    rank: int
    steps: int
    seconds: dict[str, float]


def read_phases(folder: Path) -> list[PhaseSeconds]:
    """By rank; a trace that cannot be read is left out."""
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
    steps = sum(event["name"].startswith("ProfilerStep") for event in spans)
    if not steps:
        return None
    seconds = {
        phase: sum(event.get("dur", 0.0) for event in spans if event["name"] == phase) / 1e6 / steps
        for phase in (*MODEL_PHASES, *EXCHANGE_PHASES)
    }
    return PhaseSeconds(rank, steps, seconds)
