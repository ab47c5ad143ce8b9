"""`metrics.jsonl` of a run as a table."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from tpnet_dist.errors import InputError
from tpnet_dist.files.typed_json import to_json
from tpnet_dist.training.metrics_file import METRICS_NAME, MetricsLine, read_lines
from tpnet_dist.training.run_log import flat

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
    """Return a row for each training step (`kind` is `step`) and one for each validated epoch (`eval`).

    The loss of an epoch is the mean of its steps; its figures have columns such as
    `val/transductive/random/ap`. A run that has written nothing yet has no rows.
    """
    path = run / METRICS_NAME
    rows = [_row(line) for line in _lines(path)]
    metrics = dict.fromkeys(name for row in rows for name in row if name not in _COLUMNS)
    return pl.DataFrame(rows, schema={**_COLUMNS, **dict.fromkeys(metrics, pl.Float64)}, strict=False)


def _row(line: MetricsLine) -> dict[str, Any]:
    row = flat(to_json(line))
    return {**row, "loss": row.pop("train_loss")} if "train_loss" in row else row


def _lines(path: Path) -> Iterator[MetricsLine]:
    for number, (_, line) in enumerate(read_lines(path), 1):
        if line is None:
            raise InputError(f"{path}: line {number} is damaged; remove the line")
        yield line
