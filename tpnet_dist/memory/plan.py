"""Timestamp batches, and runs of them as plain arrays of numbers.

Batches are planned a run at a time: the numbers of one are so few that calls, not work, make up the cost. In
numpy, whose calls cost a third of torch's.

Shape letters: B events of a batch, N those of a run, E their ends (two per event).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tpnet_dist.errors import InputError

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class BatchEvents:
    """A whole timestamp batch: every rank holds all of it, and scores its slice."""

    src_B: Tensor
    dst_B: Tensor
    time_B: Tensor
    """Seconds since the log's first event: float64, at least 0, not decreasing."""

    def __len__(self) -> int:
        return self.src_B.shape[0]

    def check(self, num_nodes: int, not_before: float) -> None:
        """Refuse what would corrupt the memory, before any collective."""
        check_nodes(self.src_B, num_nodes, "event {row} of the batch: source id")
        check_nodes(self.dst_B, num_nodes, "event {row} of the batch: destination id")
        time_B = self.time_B.cpu().numpy()
        before_B = np.concatenate([[not_before], time_B[:-1]])
        if not np.isfinite(time_B).all():
            raise InputError(
                "a time of the batch is NaN or infinite; convert the log again, which refuses such"
            )
        if (time_B < before_B).any():
            row = int((time_B < before_B).argmax())
            raise InputError(
                f"event {row} of the batch: time {time_B[row]} is before {before_B[row]}, "
                "which is recorded already; feed batches in time order, or reset the memory first"
            )


def check_nodes(ids: Tensor, num_nodes: int, what: str) -> None:
    """Refuse ids that own no row; `what` names one, with `{row}` for its place."""
    wrong = (ids < 0) | (ids >= num_nodes)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise InputError(
            f"{what.format(row=row)} {int(ids[row])} is not within 0…{num_nodes - 1}; "
            "use the data folder the memory was made for"
        )


@dataclass(frozen=True)
class EventRun:
    """The events of consecutive batches, one after another."""

    sizes: Integers
    """How many events each batch has."""
    node_E: Integers
    """End 2i is event i's source, 2i + 1 its destination."""
    time_N: Floats

    @classmethod
    def of(cls, batches: Sequence[BatchEvents]) -> "EventRun":
        columns = ("src_B", "dst_B", "time_B")
        src_N, dst_N, time_N = (torch.cat([getattr(batch, name) for batch in batches]) for name in columns)
        node_E = torch.stack([src_N, dst_N], dim=1).view(-1)
        sizes = np.array([len(batch) for batch in batches])
        return cls(sizes, node_E.to("cpu", torch.int64).numpy(), time_N.to("cpu", torch.float64).numpy())

    def as_one_batch(self) -> "EventRun":
        return EventRun(self.sizes.sum(keepdims=True), self.node_E, self.time_N)

    def is_clean(self, num_nodes: int, not_before: float) -> bool:
        """Whether all is within bounds and in order, batches too: one look where `check` takes many."""
        if not len(self.time_N):
            return True
        # as unsigned numbers, negative ids are too large as well; nothing compares with NaN
        within = self.node_E.view(np.uint64).max() < num_nodes
        ordered = self.time_N[0] >= not_before and (self.time_N[1:] >= self.time_N[:-1]).all()
        return bool(within and ordered and self.time_N[-1] < np.inf)


def sort_with_place(numbers: Integers) -> tuple[Integers, Integers]:
    """Sorted, and which place each came from, earlier places first among equals.

    Both lie in one integer while they are sorted, which is several times faster than a stable argsort.
    """
    bits = len(numbers).bit_length()
    both = numbers << bits
    both |= np.arange(len(numbers))
    both.sort()
    return both >> bits, both & ((1 << bits) - 1)


def places_when_sorted(numbers: Integers) -> Integers:
    """Where each comes to lie, earlier places first among equals."""
    _, order = sort_with_place(numbers)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


def starts_of_equals(sorted_numbers: Integers) -> Bools:
    """Whether a number differs from the one before it."""
    is_first = np.empty(len(sorted_numbers), bool)
    is_first[:1] = True
    np.not_equal(sorted_numbers[1:], sorted_numbers[:-1], out=is_first[1:])
    return is_first


def distinct(numbers: Integers) -> Integers:
    """Sorted, without repetitions; for a few hundred in a fraction of the time of `np.unique`."""
    ordered = np.sort(numbers)
    return ordered[starts_of_equals(ordered)]
