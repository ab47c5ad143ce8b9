"""Rows in a file, as they were after some events: a predictor that takes them need not record these again."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from tpnet_dist.config.keys import values_of
from tpnet_dist.errors import InputError
from tpnet_dist.events.reader import EventLog
from tpnet_dist.prediction.trained import Trained
from tpnet_dist.training.content_digest import content_digest
from tpnet_dist.training.weights_file import read_state, write_state

_FORMAT = 1


class UnusableRows(InputError):
    """The file is damaged, or its rows are of something else: they can still be recorded."""


@dataclass(frozen=True)
class KeptRows:
    """Holds rows, clocks and degrees."""

    num_events: int
    """How many events are in them, of the log and observed."""
    recorded_until: float
    memory_time: float
    columns: list[Tensor]


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
            raise UnusableRows(str(error)) from error
        wanted, found = {**key, "past": self.past}, state.get("rows_of")
        others = [name for name in wanted if not isinstance(found, dict) or found.get(name) != wanted[name]]
        if others:
            raise UnusableRows(f"{self.path}: holds rows of another {', '.join(others)}; remove it")
        if state["events"] > until + self.num_observed:
            raise UnusableRows(f"{self.path}: holds events that are not there any more; remove it")
        return KeptRows(state["events"], state["until"], state["memory_time"], state["columns"])


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


def write_rows(path: Path, rows: KeptRows, key: Mapping[str, Any], past: str) -> None:
    """Write rows with a checksum, whole or not at all."""
    facts = {"events": rows.num_events, "until": rows.recorded_until, "memory_time": rows.memory_time}
    columns = [column.cpu() for column in rows.columns]
    write_state(path, {"rows_of": {**key, "past": past}, **facts, "columns": columns})
