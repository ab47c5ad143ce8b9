"""Rows in a file, as they were after some events: a predictor that takes them need not record these again."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tpnet_dist.config.keys import values_of
from tpnet_dist.errors import InputError
from tpnet_dist.events.reader import EventLog
from tpnet_dist.prediction.trained import Trained
from tpnet_dist.training.content_digest import content_digest
from tpnet_dist.training.weights_file import read_state, write_state

_FORMAT = 2
_KEYS = {"rows_of", "events", "columns"}


class UnusableRows(InputError):
    """The file is damaged, or its rows are of something else: they can still be recorded."""


@dataclass(frozen=True)
class KeptRows:
    """Holds what a file of rows says."""

    path: Path
    num_events: int
    """How many events are in the rows, of the log and observed."""
    columns: list[object]

    def columns_like(self, own: Sequence[Tensor]) -> list[Tensor]:
        """Return rows, clocks and degrees, which are of the same shapes as the memory's own, and of numbers
        that it writes."""
        columns = [column for column in self.columns if isinstance(column, Tensor)]
        if list(map(_kind_of, columns)) != list(map(_kind_of, own)) or len(columns) != len(self.columns):
            raise UnusableRows(f"{self.path}: holds rows of other shapes; remove it")
        rows, *clocks = columns
        if not (_are_within(rows, -math.inf) and all(_are_within(column, 0.0) for column in clocks)):
            raise UnusableRows(f"{self.path}: holds numbers that no memory has; remove it")
        return columns


@dataclass(frozen=True)
class RowsFile:
    """Says where rows are kept, and of which observed events they must be."""

    path: Path
    past: str
    """The name of these events."""
    num_observed: int
    """How many there are; rows may know fewer."""

    def read(self, key: Mapping[str, Any], until: int) -> KeptRows | None:
        """Read the rows; None if there is no file yet."""
        if not self.path.exists():
            return None
        try:
            state = read_state(self.path)
        except InputError as error:
            raise UnusableRows(f"{self.path}: is damaged, or no file of rows; remove it") from error
        found = state.get("rows_of")
        if state.keys() != _KEYS or not isinstance(found, dict) or not isinstance(state["columns"], list):
            raise UnusableRows(f"{self.path}: is no file of rows; remove it")
        wanted = {**key, "past": self.past}
        others = [name for name in wanted if not _is_same(found.get(name), wanted[name])]
        if others:
            raise UnusableRows(f"{self.path}: holds rows of another {', '.join(others)}; remove it")
        num_events = state["events"]
        if type(num_events) is not int or not until <= num_events <= until + self.num_observed:
            raise UnusableRows(f"{self.path}: holds other events than there are; remove it")
        return KeptRows(self.path, num_events, state["columns"])


def rows_key(trained: Trained, log: EventLog, **of_load: object) -> dict[str, Any]:
    """All that rows depend on besides their events. Weights are not among it, but their epoch is."""
    settings = {name: repr(value) for name, value in values_of(trained.config).items()}
    del settings["data.folder"]
    return {
        "format": _FORMAT,
        "log": log.manifest.log_id,
        "seed": trained.seed,
        "epoch": trained.epoch,
        "random features": content_digest({"projection": trained.projection}),
        "settings": settings,
        **of_load,
    }


def write_rows(
    path: Path, columns: Sequence[Tensor], num_events: int, key: Mapping[str, Any], past: str
) -> None:
    """Write rows with a checksum, whole or not at all."""
    on_host = [column.cpu() for column in columns]
    write_state(path, {"rows_of": {**key, "past": past}, "events": num_events, "columns": on_host})


def _kind_of(column: Tensor) -> tuple[object, ...]:
    return column.shape, column.dtype, column.layout, column.is_meta


def _are_within(column: Tensor, least: float) -> bool:
    """Whether all are finite numbers, none less than `least`."""
    low, high = (end.item() for end in torch.aminmax(column))  # both NaN if any is
    return low >= least and math.isfinite(low) and math.isfinite(high)


def _is_same(found: object, wanted: object) -> bool:
    # a tensor would be compared number by number
    return type(found) is type(wanted) and found == wanted
