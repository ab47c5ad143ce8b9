"""`metrics.jsonl` of a run as a table."""

import json
from pathlib import Path
from typing import Any

import polars as pl

from tpnet_dist.errors import InputError
from tpnet_dist.training.run_log import METRICS_NAME, flat

_COLUMNS = {
    "seed": pl.Int64,
    "epoch": pl.Int64,
    "step": pl.Int64,
    "kind": pl.String,
    "seconds": pl.Float64,
    "loss": pl.Float64,
    "running_ap": pl.Float64,
}


def read_curves(run: Path) -> pl.DataFrame:
    """A row for each training step (`kind` is `step`) and one for each validated epoch (`eval`).

    The loss of an epoch is the mean of its steps; its figures have columns such as
    `val/transductive/random/ap`. A run that has written nothing yet has no rows.
    """
    path = run / METRICS_NAME
    rows = [_row(line) for line in _lines(path)] if path.is_file() else []
    metrics = dict.fromkeys(name for row in rows for name in row if name not in _COLUMNS)
    return pl.DataFrame(rows, schema={**_COLUMNS, **dict.fromkeys(metrics, pl.Float64)}, strict=False)


def _row(line: dict[str, Any]) -> dict[str, Any]:
    row = flat(line)
    return {**row, "loss": row.pop("train_loss")} if "train_loss" in row else row


def _lines(path: Path) -> list[dict[str, Any]]:
    # a line without an end is being written, or was when the run was killed
    whole = [text for text in path.read_text().splitlines(keepends=True) if text.endswith("\n")]
    lines = []
    for number, text in enumerate(whole, 1):
        try:
            lines.append(dict(json.loads(text)))
        except (ValueError, TypeError) as error:
            raise InputError(f"{path}: line {number} is no JSON object; remove the line") from error
    return lines
