"""Samplers: which of a node's earlier interactions fill its M slots. A sampler is one function.

It is given the histories that queries ask about, and returns places in them: 0 is a node's oldest
interaction, below 0 is an empty slot. Places of a query rise from slot to slot, so neighbours stand oldest
first and empty slots in front. Where interactions lie, on which rank and in which part of an index, a sampler
does not know.

    recent                 the latest M
    uniform                M draws with replacement, each interaction as likely as any other
    time_interval_aware    M draws with replacement, by the weights of `interval_weights`

Draws are functions of (seed, epoch, query, slot). So any number of ranks draws the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tpnet_dist.keyed_random import SampleKey, fractions_of


@dataclass(frozen=True)
class Queries:
    """Nodes, and what their interactions must come before."""

    node_B: Tensor
    before_B: Tensor
    """The number of an event; or a time of the log, if `by_time`, which its interactions must not have."""
    number_B: Tensor | None = None
    """The numbers that draws depend on, whoever answers; samplers that draw nothing need none."""
    by_time: bool = False

    @property
    def numbers(self) -> Tensor:
        assert self.number_B is not None, "random draws need queries with numbers"
        return self.number_B

    def columns(self) -> list[Tensor]:
        return [self.node_B, self.before_B, *([] if self.number_B is None else [self.number_B])]

    def with_columns(self, columns: list[Tensor]) -> "Queries":
        """Return queries of the same kind with other columns, in the order of `columns()`."""
        node_B, before_B, *number_B = columns
        return Queries(node_B, before_B, number_B[0] if number_B else None, self.by_time)


def together(queries: Sequence[Queries]) -> Queries:
    """Return queries of one kind joined one after another."""
    columns = zip(*(each.columns() for each in queries), strict=True)
    return queries[0].with_columns([torch.cat(column) for column in columns])


class Histories(Protocol):
    """The interactions that each query may choose from."""

    def sizes(self) -> Tensor: ...
    def max_size(self) -> int: ...
    def weight_until(self, place_BM: Tensor) -> Tensor:
        """Return the weights of each history's interactions up to and with that place, added up."""


@dataclass(frozen=True)
class Slots:
    """The number of slots of each query, and what draws for them depend on."""

    count: int
    key: SampleKey
    queries: Queries

    def fractions(self) -> Tensor:
        """Return numbers in [0, 1) for each slot: (B, M)."""
        return fractions_of(self.key, self.queries.numbers, self.count)


Sampler = Callable[[Histories, Slots], Tensor]


def recent(histories: Histories, slots: Slots) -> Tensor:
    size_B1 = histories.sizes()[:, None]
    return size_B1 + torch.arange(-slots.count, 0, device=size_B1.device)


def uniform(histories: Histories, slots: Slots) -> Tensor:
    size_B1 = histories.sizes()[:, None]
    place_BM = slots.fractions().mul_(size_B1).to(torch.int64)
    return _sort_rows(torch.where(size_B1 > 0, place_BM, -1))


def time_interval_aware(histories: Histories, slots: Slots) -> Tensor:
    """Find by bisection the place at which the weights added up exceed a fraction of all of them."""
    size_B1 = histories.sizes()[:, None]
    total_B1 = histories.weight_until((size_B1 - 1).clamp_(min=0))
    goal_BM = slots.fractions().mul_(total_B1)
    # so many interactions weigh no more than the goal
    place_BM = torch.zeros_like(goal_BM, dtype=torch.int64)
    for power in reversed(range(histories.max_size().bit_length())):
        probe_BM = torch.minimum(place_BM + (1 << power), size_B1)
        is_below_BM = histories.weight_until((probe_BM - 1).clamp_(min=0)) <= goal_BM
        place_BM = torch.where(is_below_BM, probe_BM, place_BM)
    # a fraction near 1 may be rounded to the whole
    return _sort_rows(torch.minimum(place_BM, size_B1 - 1))


SAMPLERS: dict[str, Sampler] = {
    "recent": recent,
    "uniform": uniform,
    "time_interval_aware": time_interval_aware,
}
WEIGHTED_SAMPLING = "time_interval_aware"


def _sort_rows(rows: Tensor) -> Tensor:
    """Sort each row; in place on the host, where numpy takes a fifth of torch's time for short rows."""
    if rows.device.type != "cpu":
        return rows.sort(dim=1).values
    rows.numpy().sort(axis=1)
    return rows
