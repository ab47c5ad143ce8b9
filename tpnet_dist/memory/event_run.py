"""Timestamp batches, and runs of them as plain arrays of numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tpnet_dist.distributed.blocks import check_nodes
from tpnet_dist.errors import InputError

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BatchEvents:
    """A whole timestamp batch: every rank holds all of it, and scores its slice."""

    src_B: Tensor
    dst_B: Tensor
    time_B: Tensor
    """Seconds since the log's first event: float64, at least 0, not decreasing."""

    def __len__(self) -> int:
        return self.src_B.shape[0]

    @classmethod
    def none(cls) -> "BatchEvents":
        nobody = torch.empty(0, dtype=torch.int64)
        return cls(nobody, nobody, nobody.double())

    @classmethod
    def joined(cls, parts: Sequence["BatchEvents"]) -> "BatchEvents":
        columns = zip(*((part.src_B, part.dst_B, part.time_B) for part in parts), strict=True)
        return parts[0] if len(parts) == 1 else cls(*map(torch.cat, map(list, columns)))


def partners(of_ends: Integers) -> Integers:
    """Swap what the two ends of each event have."""
    return of_ends.reshape(-1, 2)[:, ::-1].ravel()


@dataclass(frozen=True)
class EventRun:
    """Holds the events of consecutive batches, one after another. E counts ends, two of each event."""

    node_E: Integers
    """End 2i is event i's source, 2i + 1 its destination."""
    time_E: Floats
    """The time of the end's event."""
    border: Integers
    """Batch b has the ends border[b] … border[b + 1] - 1."""

    @classmethod
    def of(cls, batches: Sequence[BatchEvents]) -> "EventRun":
        columns = ("src_B", "dst_B", "time_B")
        src, dst, time = (
            torch.cat([getattr(batch, name) for batch in batches]).cpu().numpy() for name in columns
        )
        return cls.from_columns(src, dst, time, np.cumsum([0, *(len(batch) for batch in batches)]))

    @classmethod
    def from_columns(
        cls,
        src: npt.NDArray[np.integer],
        dst: npt.NDArray[np.integer],
        seconds: Floats,
        event_border: Integers,
    ) -> "EventRun":
        """Make a run of columns of events. `event_border`: where each batch's events begin, and where the
        last one's end."""
        node_E = np.empty(2 * len(src), np.int64)
        node_E[0::2], node_E[1::2] = src, dst
        return cls(node_E, np.repeat(seconds, 2), 2 * event_border)

    @property
    def num_batches(self) -> int:
        return len(self.border) - 1

    @property
    def num_events(self) -> int:
        return len(self.node_E) // 2

    def batches(self, first: int, stop: int) -> "EventRun":
        """Return some of the batches."""
        border = self.border[first : stop + 1]
        here = slice(border[0], border[-1])
        return EventRun(self.node_E[here], self.time_E[here], border - border[0])

    def check(self, num_nodes: int, not_before: float) -> None:
        """Refuse what would corrupt the memory, before any collective. Batches are checked one by one only to
        name an event."""
        if self._is_clean(num_nodes, not_before):
            return
        for start, stop in zip(self.border[:-1].tolist(), self.border[1:].tolist(), strict=True):
            for first, end in ((start, "source"), (start + 1, "destination")):
                nodes_B = torch.from_numpy(self.node_E[first:stop:2])
                check_nodes(nodes_B, num_nodes, f"event {{row}} of the batch: {end} id")
            not_before = _check_times(self.time_E[start:stop:2], not_before)
        raise AssertionError("some batch of a run that is not clean is refused")

    def _is_clean(self, num_nodes: int, not_before: float) -> bool:
        if not len(self.node_E):
            return True
        # as unsigned numbers, negative ids are too large as well; nothing compares with NaN
        within = self.node_E.view(np.uint64).max() < num_nodes
        ordered = self.time_E[0] >= not_before and (self.time_E[1:] >= self.time_E[:-1]).all()
        return bool(within and ordered and self.time_E[-1] < np.inf)


def _check_times(time_B: Floats, not_before: float) -> float:
    """Refuse times that go backwards; return the last."""
    if not np.isfinite(time_B).all():
        raise InputError("a time of the batch is NaN or infinite; convert the log again, which refuses such")
    before_B = np.append(not_before, time_B)
    if (is_before_B := time_B < before_B[:-1]).any():
        row = int(is_before_B.argmax())
        raise InputError(
            f"event {row} of the batch: time {time_B[row]} is before {before_B[row]}, "
            "which is recorded already; feed batches in time order, or reset the memory first"
        )
    return float(before_B[-1])
