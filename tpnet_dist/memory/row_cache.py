"""Copies of other ranks' rows, so that a row is asked for again only once it has changed.

`cache_slots` decides at plan time what is held where; here the copies lie, as they arrived: in the type of
the exchange, with their self-products. Results do not change by one bit, whatever the capacity: a copy is
what its owner would send again.

    1. plan      which rows of each batch are held, which of the others will be kept
    2. assemble  arrived rows and held ones, put in the order of the nodes; then arrived ones are kept

Own rows are not kept: they are here. With one rank there is nothing to keep.

Shape letters: U fetched rows, A asked ones, H held ones, K kept ones, V nodes that a batch records, S slots,
G batches, P ranks, L layers, D width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tpnet_dist.memory.cache_slots import CacheSlots, SlotRun
from tpnet_dist.memory.fetch_plan import FetchPlan
from tpnet_dist.memory.plan import Bools, Integers
from tpnet_dist.memory.touched import Touched
from tpnet_dist.ranks.host_memory import ask_for_huge_pages


def bytes_per_row(layers: int, width: int, dtype: torch.dtype, wire_dtype: torch.dtype) -> int:
    """What a row and its self-products take, on their way and in the cache."""
    return layers * width * wire_dtype.itemsize + layers * layers * dtype.itemsize


@dataclass(frozen=True)
class CachePlan:
    """How one batch's rows are put together, and what is kept of them."""

    order_U: Tensor
    """Where each row lies when the held ones come after those that were asked for."""
    slot_H: Tensor
    kept_A: Tensor
    """Which of the asked ones are kept."""
    slot_K: Tensor
    number: int
    """A copy is there once its batch is fetched: batches are fetched in the order they were planned."""


@dataclass(frozen=True)
class CacheRun:
    """A run of batches."""

    is_held_U: Bools
    """Which rows are here already, batch after batch."""
    plans: list[CachePlan]


class RowCache:
    """At most `capacity` rows of other ranks."""

    def __init__(
        self,
        num_nodes: int,
        capacity: int,
        own: slice,
        row_shape: tuple[int, int],
        *,
        dtype: torch.dtype,
        wire_dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        layers, width = row_shape
        self.device = device
        self.bytes_per_row = bytes_per_row(layers, width, dtype, wire_dtype)
        self.slots = CacheSlots(num_nodes, capacity, own)
        # the host gives memory as slots are written to, and low ones come first
        rows_SLD = torch.empty(capacity, layers, width, dtype=wire_dtype, device=device)
        products_SLL = torch.empty(capacity, layers, layers, dtype=dtype, device=device)
        self._tables = [ask_for_huge_pages(rows_SLD), products_SLL]
        self._num_planned = self._num_fetched = 0

    def clear(self) -> None:
        """Rows went back, or elsewhere; what was planned but not fetched never will be."""
        self.slots.clear()
        self._num_fetched = self._num_planned

    def plan_run(self, touched: Touched, fetch: FetchPlan, *, record: bool) -> CacheRun:
        """Stage 1 for consecutive batches; `record` says whether they are recorded one by one."""
        nodes = np.split(fetch.node_U, fetch.batch_borders()[1:-1])
        recorded = _remote_by_batch(touched) if record else [touched.node_V[:0]] * len(nodes)
        slots = self.slots.plan_run(nodes, recorded)
        return CacheRun(slots.is_held_U, self._by_batch(slots, fetch.batch_borders()))

    def drop(self, touched: Touched) -> None:
        """Rows that are recorded by batches which this cache had no part in."""
        for node_V in _remote_by_batch(touched):
            self.slots.drop(node_V)

    def _by_batch(self, run: SlotRun, border_G: Integers) -> list[CachePlan]:
        is_held_U, first_G, rows_G = run.is_held_U, border_G[:-1], np.diff(border_G)
        asked_before_U, held_before_U = (np.append(0, some.cumsum()) for some in (~is_held_U, is_held_U))
        asked_G, held_G = (np.diff(before_U[border_G]) for before_U in (asked_before_U, held_before_U))
        order_U = np.where(
            is_held_U,
            held_before_U[:-1] + (asked_G - held_before_U[first_G]).repeat(rows_G),
            asked_before_U[:-1] - asked_before_U[first_G].repeat(rows_G),
        )
        kept_A = asked_before_U[run.row_K] - asked_before_U[first_G].repeat(run.kept_G)
        columns = zip(
            self._split(order_U, rows_G.tolist()),
            self._split(run.slot_H, held_G.tolist()),
            self._split(kept_A, run.kept_G),
            self._split(run.slot_K, run.kept_G),
            strict=True,
        )
        plans = [CachePlan(*column, self._num_planned + batch) for batch, column in enumerate(columns)]
        self._num_planned += len(plans)
        return plans

    def assemble(self, plan: CachePlan, arrived: Sequence[Tensor]) -> list[Tensor]:
        """Stage 2: rows and self-products of all nodes, from those that arrived and those that are held."""
        assert plan.number == self._num_fetched, (
            "batches are fetched in the order they were planned, each once"
        )
        self._num_fetched += 1
        return [self._join(plan, table, asked) for table, asked in zip(self._tables, arrived, strict=True)]

    def _join(self, plan: CachePlan, table: Tensor, asked: Tensor) -> Tensor:
        joined = asked.new_empty(len(plan.order_U), *asked.shape[1:])
        joined[: len(asked)] = asked
        torch.index_select(table, 0, plan.slot_H, out=joined[len(asked) :])
        # a slot may be that of a row just read
        table.index_copy_(0, plan.slot_K, asked.index_select(0, plan.kept_A))
        return joined.index_select(0, plan.order_U)

    def _split(self, array: npt.NDArray[Any], sizes: list[int]) -> Sequence[Tensor]:
        return torch.from_numpy(array).to(self.device).split_with_sizes(sizes)


def _remote_by_batch(touched: Touched) -> list[Integers]:
    """The nodes of other ranks that each batch records."""
    is_remote_V = np.ones(len(touched.node_V), bool)
    is_remote_V[touched.own_V] = False
    batch_V = touched.batch_V[is_remote_V]
    borders = batch_V.searchsorted(np.arange(1, touched.num_batches))
    return np.split(touched.node_V[is_remote_V], borders)
