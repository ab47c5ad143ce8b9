"""Neighbours of neighbours: what stands in the slots of one hop is asked for the slots of the next.

Whatever stands in a slot is a node at the time of the interaction that put it there, and its own neighbours
are those before that time. Many slots hold the same: two senders that wrote to one node, or the events of one
sender. If nothing is drawn, they are the same row of a table and are looked up, and embedded, once.

Row 0 stands for empty slots: it is nobody, at the log's time 0, and has only empty slots.

A slots are filled, by V − 1 rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tpnet_dist.keyed_random import SampleKey, state_of, words_of
from tpnet_dist.neighbors.index import Neighbors
from tpnet_dist.neighbors.samplers import Queries, together

_NOBODY = 0
_KEY_OF_ROWS = SampleKey(0, 0)


@dataclass(frozen=True)
class HopRows:
    """Holds what stands in the slots of a hop."""

    node_V: Tensor
    time_V: Tensor
    number_V: Tensor
    """The numbers that a row's draws depend on: those of its neighbours, and dropout."""
    slot_rows: list[Tensor]
    """The row that each slot is, for every part of the hop before."""

    @classmethod
    def of(cls, parts: Sequence[Neighbors], numbers: Sequence[Tensor], *, draws: bool) -> "HopRows":
        """Collect the rows of a hop. `numbers`: of the queries whose slots these are; `draws`: whether
        neighbours are drawn."""
        mask = torch.cat([part.mask_BM.flatten() for part in parts])
        node_A, time_A = (
            torch.cat([getattr(part, name).flatten() for part in parts])[mask]
            for name in ("ids_BM", "times_BM")
        )
        if draws:
            # each slot draws neighbours of its own
            slot_numbers = [
                words_of(number, part.mask_BM.shape[1]).flatten()
                for number, part in zip(numbers, parts, strict=True)
            ]
            node_V, time_V, number_V = node_A, time_A, torch.cat(slot_numbers)[mask]
            row_A = torch.arange(len(node_A))
        else:
            node_V, time_V, row_A = _distinct(node_A, time_A)
            number_V = state_of(_KEY_OF_ROWS, node_V) ^ time_V.view(torch.int64)
        row = torch.zeros(len(mask), dtype=torch.int64)
        row[mask] = row_A + 1
        sizes = [part.mask_BM.numel() for part in parts]
        slot_rows = [
            rows.view(part.mask_BM.shape)
            for rows, part in zip(row.split_with_sizes(sizes), parts, strict=True)
        ]
        node_V, time_V, number_V = (
            F.pad(column, (1, 0), value=_NOBODY) for column in (node_V, time_V, number_V)
        )
        return cls(node_V, time_V, number_V, slot_rows)

    def queries(self) -> Queries:
        """Ask for neighbours of all rows but the first."""
        return Queries(self.node_V[1:], self.time_V[1:], self.number_V[1:], by_time=True)

    def __len__(self) -> int:
        return len(self.node_V)


@dataclass(frozen=True)
class FoundHop:
    """Holds rows with their neighbours."""

    rows: HopRows
    found: Neighbors


def further_hops(
    parts: Sequence[Sequence[Neighbors]],
    numbers: Sequence[Sequence[Tensor]],
    count: int,
    ask: Callable[[Queries], Neighbors],
    *,
    draws: bool,
) -> list[list[FoundHop]]:
    """Return `count` hops more for each of several batches, whose first hops are in parts; `ask` is called
    once for each hop, with what all batches ask."""
    hops: list[list[FoundHop]] = [[] for _ in parts]
    for _ in range(count):
        rows = [
            HopRows.of(of_batch, of_queries, draws=draws)
            for of_batch, of_queries in zip(parts, numbers, strict=True)
        ]
        asked = [each.queries() for each in rows]
        found = ask(together(asked))
        answers = found.split([len(each.node_B) for each in asked])
        for hop, each, answer in zip(hops, rows, answers, strict=True):
            hop.append(FoundHop(each, _after_nobody(answer)))
        parts = [[hop[-1].found] for hop in hops]
        numbers = [[each.number_V] for each in rows]
    return hops


def _distinct(node_A: Tensor, time_A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return distinct pairs in order of node and time, and which of them each is."""
    times, time_number_A = np.unique(time_A.numpy(), return_inverse=True)
    pair_A = node_A.numpy() * max(1, len(times)) + time_number_A
    _, first_V, row_A = np.unique(pair_A, return_index=True, return_inverse=True)
    first = torch.from_numpy(first_V)
    return node_A[first], time_A[first], torch.from_numpy(row_A)


def _after_nobody(found: Neighbors) -> Neighbors:
    """Put an empty row in front."""
    one_more = (0, 0, 1, 0)
    return Neighbors(
        F.pad(found.ids_BM, one_more, value=-1),
        F.pad(found.events_BM, one_more, value=-1),
        F.pad(found.times_BM, one_more),
        F.pad(found.mask_BM, one_more, value=False),
    )
