"""The exchange of a run: each rank asks the owners for layers of rows, and is asked.

    1. meet    how many rows each rank asks of each, whether they fit, first ids on the host, ahead
    2. ask     which rows and layers: ids to the owners, if there were more      on the host, ahead
    3. lend    the layers, with the rows' clocks, to the askers                  where the rows are
    4. keep    what arrived goes into its slots

A run may be lent before the one before it is recorded. Then rows that the earlier run does not change travel
while it is recorded; the others are late, and travel when it is:

    about to record    what comes first         what travels meanwhile
    run 1                                       rows of run 2, not late
    run 2              late rows of run 2       rows of run 3, not late

So a run takes three collectives, rarely four: 1 and 2, which need no row and so may be done long before; late
rows; others. As many ids as the run before had, and a few more, travel with the counts.
What one rank lends another lies together as bytes: clocks, degrees if there are any, layers, and up to seven
bytes of padding. Both sides can tell its length.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tpnet_dist.distributed.exchange import Arriving, Exchange, ExchangeRoute
from tpnet_dist.distributed.packed_copy import PackedCopy
from tpnet_dist.memory.borrowed_rows import BorrowedRows
from tpnet_dist.memory.event_run import Integers
from tpnet_dist.memory.row_table import RowTable
from tpnet_dist.memory.run_length import Fit
from tpnet_dist.memory.run_plan import Asked, RunPlan

ID_BYTES = 8
"""The bytes that the id of a row asked for takes."""
_NOTICE = 3
"""Numbers that a rank tells each other before ids: how many rows it asks for, how many at most of anybody,
and how rows fit."""


@dataclass
class IdRoom:
    """The number of ids that have room beside the counts; the same on all ranks, which all know how many were
    asked for last."""

    count: int = 0

    def learn(self, most: int) -> bool:
        """Learn how much room to have. `most`: the largest number of rows that a rank asks of another. Return
        whether they had room."""
        had_room = most <= self.count
        self.count = max(-(-most * 5 // 4), 16)
        return had_room

    def bytes_to_ask(self, counts: Integers, most: int) -> int:
        """Return what a rank sends all others to meet and ask, where `counts` is by rank, 0 for itself."""
        more = int(np.maximum(counts - self.count, 0).sum()) if most > self.count else 0
        return ID_BYTES * ((len(counts) - 1) * (_NOTICE + self.count) + more)


def reply_bytes(asked: Asked, layer_bytes: int, clock_bytes: int) -> list[int]:
    """Return the bytes of rows that each rank sends another at once, or gets from it."""
    clocks_R, layers_R = clock_bytes * np.diff(asked.border_R), layer_bytes * np.diff(asked.layer_borders())
    sizes: list[int] = (clocks_R + -(-layers_R // 8) * 8).tolist()
    return sizes


@dataclass(frozen=True)
class Places:
    """The places, on their device, of rows that are lent or kept."""

    asked: Asked
    row_A: Tensor
    layer_Q: Tensor

    def by_rank(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the rows of each rank, and their layers."""
        rows, layers = np.diff(self.asked.border_R), np.diff(self.asked.layer_borders())
        parts = self.row_A.split_with_sizes(rows.tolist()), self.layer_Q.split_with_sizes(layers.tolist())
        return zip(*parts, strict=True)


@dataclass
class ArrangedRun:
    """A run of which every rank knows what it lends to whom."""

    fit: Fit
    """How the rows fit on the rank where they fit least."""
    asked: tuple[Asked, Asked, Asked, Asked]
    """The rows lent to others, early and late ones, and those kept, early and late ones."""
    packed: PackedCopy
    """Of each of these four the rows, and the layers as rows of a table with a row for each layer."""
    places: tuple[Places, ...] = ()
    """The same on the device, while early rows are on their way."""
    arriving: Arriving | None = None


class RunExchange:
    """Exchanges the rows of a run: lends this rank's rows, and borrows those of others."""

    def __init__(
        self, table: RowTable, borrowed: BorrowedRows, exchange: Exchange, wire_dtype: torch.dtype
    ) -> None:
        self.table, self.borrowed, self.exchange, self.wire_dtype = table, borrowed, exchange, wire_dtype
        self.id_room = IdRoom()

    def arrange(self, plan: RunPlan) -> ArrangedRun:
        """Go through stages 1 and 2, which touch no row, so they may be done ahead and in another thread."""
        asked_of_us, fit = self._ask(plan)
        asked = (*asked_of_us.early_and_late(), *plan.asked.early_and_late())
        stats = self.exchange.stats
        stats.runs += 1
        stats.rows_borrowed += len(plan.asked.row_A)
        stats.rows_needed += plan.num_needed
        num_layers = self.table.rows_NLD.shape[1]
        places = [
            torch.from_numpy(places)
            for each in asked
            for places in (each.row_A, each.layer_index(num_layers))
        ]
        return ArrangedRun(fit, asked, PackedCopy(places, self.table.rows_NLD.device))

    def _ask(self, plan: RunPlan) -> tuple[Asked, Fit]:
        """Return what others ask of this rank, and how rows fit where they fit least."""
        host, num_ranks, room = self.exchange.host, self.exchange.num_ranks, self.id_room.count
        counts, ids = np.diff(plan.asked.border_R), plan.asked.packed(plan.owner_row_A)
        ids_by_rank = np.split(ids, plan.asked.border_R[1:-1])
        # 1. meet
        notices = np.zeros((num_ranks, _NOTICE + room), np.int64)
        for notice, of_rank in zip(notices, ids_by_rank, strict=True):
            notice[:_NOTICE] = len(of_rank), counts.max(), plan.fit
            notice[_NOTICE : _NOTICE + len(of_rank[:room])] = of_rank[:room]
        everybody = ExchangeRoute([1] * num_ranks, [1] * num_ranks)
        [arrived] = host.forward(everybody, [torch.from_numpy(notices)])
        theirs = arrived.numpy()
        their_counts, most, fit = theirs[:, 0], int(theirs[:, 1].max()), Fit(int(theirs[:, 2].max()))
        parts = [
            notice[_NOTICE : _NOTICE + count] for notice, count in zip(theirs, their_counts, strict=True)
        ]
        # 2. ask
        if not self.id_room.learn(most):
            route = ExchangeRoute(*(np.maximum(each - room, 0).tolist() for each in (counts, their_counts)))
            further = np.concatenate([of_rank[room:] for of_rank in ids_by_rank])
            [arrived] = host.forward(route, [torch.from_numpy(further)])
            further_parts = arrived.split_with_sizes(route.recv_counts)
            parts = [np.append(part, more) for part, more in zip(parts, further_parts, strict=True)]
        return Asked.unpacked(np.concatenate(parts), their_counts.tolist()), fit

    def lend(self, run: ArrangedRun) -> None:
        """Stage 3 for rows that are not late; they arrive while others are recorded."""
        tensors = iter(run.packed.arrive())
        run.places = tuple(Places(asked, next(tensors), next(tensors)) for asked in run.asked)
        lent, _, kept, _ = run.places
        run.arriving = self._send(lent, kept)

    def keep_late(self, run: ArrangedRun) -> None:
        """Go through stages 3 and 4 for late rows."""
        _, lent, _, kept = run.places
        self._keep(kept, self._send(lent, kept).wait())

    def keep_early(self, run: ArrangedRun) -> None:
        """Stage 4 for the others."""
        (_, _, kept, _), arriving = run.places, run.arriving
        assert arriving is not None, "rows arrive when they were lent"
        run.places, run.arriving = (), None
        self._keep(kept, arriving.wait())

    def _send(self, lent: Places, kept: Places) -> Arriving:
        return self.exchange.send(self._pack(lent), self._sizes(lent.asked), self._sizes(kept.asked))

    def _sizes(self, asked: Asked) -> list[int]:
        """Return how many bytes travel to or from each rank."""
        layer_bytes = self.table.rows_NLD.shape[2] * self.wire_dtype.itemsize
        return reply_bytes(asked, layer_bytes, 8 * self._numbers_per_clock)

    @property
    def _numbers_per_clock(self) -> int:
        return len(self.table.clocks.columns())

    def _pack(self, lent: Places) -> Tensor:
        rows_NLD, columns = self.table.rows_NLD, self.table.clocks.columns()
        sizes = self._sizes(lent.asked)
        message = torch.empty(sum(sizes), dtype=torch.uint8, device=rows_NLD.device)
        layers_of = rows_NLD.view(-1, rows_NLD.shape[2])
        for part, (row_A, layer_Q) in zip(message.split_with_sizes(sizes), lent.by_rank(), strict=True):
            if not len(row_A):
                continue
            clock, layers = self._views(part, len(row_A), len(layer_Q))
            for numbers, column in zip(clock, columns, strict=True):
                torch.index_select(column, 0, row_A, out=numbers)
            if self.wire_dtype == rows_NLD.dtype:
                torch.index_select(layers_of, 0, layer_Q, out=layers)
            else:
                layers.copy_(layers_of[layer_Q])
        return message

    def _keep(self, kept: Places, arrived: Tensor) -> None:
        """Put rows into their slots."""
        rows_VLD, columns = self.borrowed.rows_VLD, self.table.clocks.columns()
        layers_of = rows_VLD.view(-1, rows_VLD.shape[2])
        parts = arrived.split_with_sizes(self._sizes(kept.asked))
        for part, (slot_A, layer_Q) in zip(parts, kept.by_rank(), strict=True):
            if not len(slot_A):
                continue
            clock, layers = self._views(part, len(slot_A), len(layer_Q))
            for column, numbers in zip(columns, clock, strict=True):
                column[-1 - slot_A] = numbers
            layers_of.index_copy_(0, layer_Q, layers.to(rows_VLD.dtype))

    def _views(self, part: Tensor, num_rows: int, num_layers: int) -> tuple[Tensor, Tensor]:
        """Cut what a rank sends another: clocks and degrees (1 or 2, A), layers (L, D)."""
        width = self.table.rows_NLD.shape[2]
        start = 8 * self._numbers_per_clock * num_rows
        stop = start + num_layers * width * self.wire_dtype.itemsize
        layers = part[start:stop].view(self.wire_dtype).view(num_layers, width)
        return part[:start].view(torch.float64).view(self._numbers_per_clock, num_rows), layers
