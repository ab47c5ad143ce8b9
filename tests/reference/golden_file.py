"""Read a file of golden numbers of any log, width, hops and decay; refuse one that cannot be used."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tpnet_dist.errors import InputError
from tpnet_dist.memory.event_run import BatchEvents, EventRun
from tpnet_dist.memory.walks import Walk

Array = npt.NDArray[Any]

SETTINGS = ("decay", "batch_size", "num_neighbors", "hops", "width", "warm_batches", "memory_time_after_warm")
EVENTS = ("src", "dst", "time", "edge_id")
QUERIES = ("query_src", "query_dst", "query_neg", "query_time")

_UNREADABLE = (zipfile.BadZipFile, zlib.error, ValueError, EOFError, AttributeError, TypeError)


@contextmanager
def open_golden(path: Path) -> Iterator[Any]:
    try:
        with np.load(path) as stored:
            yield stored
    except _UNREADABLE as error:
        raise InputError(f"{path} is not a readable npz file; record it again") from error


class GoldenFile:
    """Settings, events, random features and queries; what is compared is asked for with `read`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._arrays = self._read([*SETTINGS, *EVENTS, "H0", *QUERIES])
        self.walk = Walk("decay", int(self["hops"]), float(self["decay"]))
        self.num_nodes, self.num_queries = len(self["H0"]), len(self["query_src"])
        self._check()

    def __getitem__(self, key: str) -> Array:
        return self._arrays[key]

    def read(self, key: str, shape: tuple[int | None, ...] | None = None) -> Array:
        """A quantity to compare with; `shape` is what the settings lead to expect, None any size."""
        self._arrays |= self._read([key])
        if shape is not None:
            self._require_shape(key, shape)
        return self[key]

    def names(self) -> list[str]:
        """All keys of the file."""
        with open_golden(self.path) as stored:
            return list(stored.files)

    @cached_property
    def events(self) -> BatchEvents:
        """Times count from the first event."""
        return as_events(self["src"], self["dst"], self["time"] - self["time"][0])

    @property
    def recorded_time(self) -> float:
        """When rows are read, on the clock of `events`."""
        return float(self["memory_time_after_warm"] - self["time"][0])

    def warm_batches(self) -> list[BatchEvents]:
        size, count, events = int(self["batch_size"]), int(self["warm_batches"]), self.events
        return [
            BatchEvents(events.src_B[here], events.dst_B[here], events.time_B[here])
            for here in (slice(start, start + size) for start in range(0, count * size, size))
        ]

    def _read(self, keys: list[str]) -> dict[str, Array]:
        with open_golden(self.path) as stored:
            missing = [key for key in keys if key not in stored.files]
            arrays = {key: stored[key] for key in keys if key not in missing}
        if missing:
            raise InputError(f"{self.path} lacks {', '.join(missing)}; record it with all keys of the layout")
        return arrays

    def _check(self) -> None:
        for key in SETTINGS:
            self._require_shape(key, ())
        for key in EVENTS:
            self._require_shape(key, (len(self["src"]),))
        for key in QUERIES:
            self._require_shape(key, (self.num_queries,))
        self._require_shape("H0", (self.num_nodes, int(self["width"])))
        recorded = int(self["warm_batches"]) * int(self["batch_size"])
        if not 0 < recorded <= len(self["src"]):
            raise InputError(
                f"{self.path}: of {len(self['src'])} events {recorded} are warm; record it again"
            )
        EventRun.of([self.events]).check(self.num_nodes, float("-inf"))
        ids = np.concatenate([self["query_src"], self["query_dst"], self["query_neg"]])
        if len(ids) and not 0 <= ids.min() <= ids.max() < self.num_nodes:
            raise InputError(
                f"{self.path}: a query's id is not within 0…{self.num_nodes - 1}; record it again"
            )

    def _require_shape(self, key: str, shape: tuple[int | None, ...]) -> None:
        found = self[key].shape
        # a size that may be any is the one it is
        fixed = tuple(here if size is None else size for here, size in zip(found, shape, strict=False))
        if len(found) != len(shape) or found != fixed:
            wanted = str(shape).replace("None", "any")
            raise InputError(
                f"{self.path}: {key} has shape {found}, but the other keys ask for {wanted}; record it again"
            )


def as_events(src: Array, dst: Array, time: Array) -> BatchEvents:
    return BatchEvents(
        torch.from_numpy(src.astype(np.int64)),
        torch.from_numpy(dst.astype(np.int64)),
        torch.from_numpy(time.astype(np.float64)),
    )
