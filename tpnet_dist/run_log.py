"""What a run writes for people and programs: metrics line by line, scalars for TensorBoard, results."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

METRICS_NAME, RESULTS_NAME, TENSORBOARD_NAME = "metrics.jsonl", "results.json", "tensorboard"


class RunLog:
    """One JSON object per line, each with `kind`, and the same numbers as TensorBoard scalars."""

    def __init__(self, folder: Path) -> None:
        # takes a second to import, and only the rank that writes needs it
        from torch.utils.tensorboard import SummaryWriter

        self._lines = (folder / METRICS_NAME).open("a")
        self._scalars = SummaryWriter(str(folder / TENSORBOARD_NAME))
        self._started = time.time()

    def write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """`step`: of the optimizer, over all epochs."""
        line = {"kind": kind, "step": step, "seconds": round(time.time() - self._started, 3), **values}
        print(json.dumps(line), file=self._lines)
        for name, value in flat(values).items():
            if isinstance(value, float):
                self._scalars.add_scalar(f"{kind}/{name}", value, step)

    def flush(self) -> None:
        self._lines.flush()
        self._scalars.flush()

    def close(self) -> None:
        self._lines.close()
        self._scalars.close()


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with names joined by slashes."""
    joined: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            joined |= flat(value, f"{prefix}{name}/")
        else:
            joined[f"{prefix}{name}"] = value
    return joined
