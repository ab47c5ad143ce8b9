"""The exchange of a run: each rank asks the owners for layers of rows, and is asked.

    1. meet    how many rows each rank asks of each, and whether they fit
    2. ask     which rows and layers: ids to the owners
    3. lend    the layers, with the rows' clocks, back to the askers
    4. keep    what arrived goes into its slots

A run may be begun before the one before it is recorded. Then rows that the earlier run does not change travel
while it is recorded; the others are late, and travel with what ranks say when they meet for the next run:

    about to record    meets for    asks for    what travels meanwhile       what comes first
    run 1              run 2        run 2       rows of run 2, not late
    run 2              run 3        run 3       rows of run 3, not late      late rows of run 2

So a run takes three collectives: 1 with the late rows of the run before, 2, 3. What one rank lends another
lies together as bytes: clocks, degrees if there are any, layers, and up to seven bytes of padding. Both sides
can tell its length.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tpnet_dist.distributed.exchange import Arriving, Exchange, ExchangeRoute
from tpnet_dist.memory.borrowed_rows import BorrowedRows
from tpnet_dist.memory.event_run import Integers
from tpnet_dist.memory.row_table import RowTable
from tpnet_dist.memory.run_length import Fit
from tpnet_dist.memory.run_plan import Asked, RunPlan

ID_BYTES = 8
"""Of a row that is asked for."""
NOTICE_BYTES = 16
"""What a rank says to each other when they meet: how many rows it asks for, and how rows fit."""


def reply_bytes(asked: Asked, layer_bytes: int, clock_bytes: int) -> list[int]:
    """Return the bytes of rows that each rank sends another at once, or gets from it."""
    clocks_R, layers_R = clock_bytes * np.diff(asked.border_R), layer_bytes * np.diff(asked.layer_borders())
    sizes: list[int] = (clocks_R + -(-layers_R // 8) * 8).tolist()
    return sizes


@dataclass(frozen=True)
class PendingRun:
    """A run whose rows are on their way."""

    plan: RunPlan
    fit: Fit
    """Of the rows, where they fit least."""
    early: Asked
    arriving: Arriving
    late: Asked
    lent_late: Asked


class RunExchange:
    """Exchanges the rows of a run: lends this rank's rows, and borrows those of others."""

    def __init__(
        self, table: RowTable, borrowed: BorrowedRows, exchange: Exchange, wire_dtype: torch.dtype
    ) -> None:
        self.table, self.borrowed, self.exchange, self.wire_dtype = table, borrowed, exchange, wire_dtype
        self._no_rows = Asked.unpacked(np.empty(0, np.int64), [0] * exchange.num_ranks)

    def begin(self, plan: RunPlan, earlier: PendingRun | None = None) -> PendingRun:
        """Stages 1 to 3, with the late rows of the run before; rows arrive while others are recorded."""
        exchange, device = self.exchange, self.table.rows_NLD.device
        # 1. meet
        counts = np.diff(plan.asked.border_R)
        theirs_R2 = self._trade_late(earlier, np.stack([counts, np.full_like(counts, plan.fit)], 1))
        route = ExchangeRoute(counts.tolist(), theirs_R2[:, 0].tolist())
        # 2. ask
        ids = torch.from_numpy(plan.asked.packed(plan.owner_row_A)).to(device)
        [ids] = exchange.forward(route, [ids])
        lent, lent_late = Asked.unpacked(ids.cpu().numpy(), route.recv_counts).early_and_late()
        # 3. lend
        early, late = plan.asked.early_and_late()
        arriving = exchange.send(self._pack(lent), self._sizes(lent), self._sizes(early))
        exchange.stats.runs += 1
        exchange.stats.rows_borrowed += len(plan.asked.row_A)
        exchange.stats.rows_needed += plan.num_needed
        return PendingRun(plan, Fit(theirs_R2[:, 1].max()), early, arriving, late, lent_late)

    def finish(self, pending: PendingRun, following: RunPlan | None) -> PendingRun | None:
        """Stage 4, after beginning the following run, if there is one."""
        started = None
        if following is not None:
            started = self.begin(following, pending)
        elif pending.plan.is_early:
            self._trade_late(pending, np.empty((self.exchange.num_ranks, 0), np.int64))
        self._keep(pending.early, pending.arriving.wait())
        return started

    def _trade_late(self, pending: PendingRun | None, notices: Integers) -> Integers:
        """Exchange late rows of a pending run, behind numbers of notice; return what others say to us."""
        lent, late = (
            (pending.lent_late, pending.late) if pending is not None else (self._no_rows, self._no_rows)
        )
        sizes_out, sizes_in = (
            [notices[0].nbytes + size for size in self._sizes(rows)] for rows in (lent, late)
        )
        arrived = self.exchange.trade(self._pack(lent, notices), sizes_out, sizes_in)
        return self._keep(late, arrived, notices.shape[1])

    def _sizes(self, asked: Asked) -> list[int]:
        """Return how many bytes travel to or from each rank."""
        layer_bytes = self.table.rows_NLD.shape[2] * self.wire_dtype.itemsize
        return reply_bytes(asked, layer_bytes, 8 * self._numbers_per_clock)

    @property
    def _numbers_per_clock(self) -> int:
        return len(self.table.clocks.columns())

    def _pack(self, lent: Asked, notices: Integers | None = None) -> Tensor:
        rows_NLD, clocks = self.table.rows_NLD, self.table.clocks
        if notices is None:
            notices = np.empty((self.exchange.num_ranks, 0), np.int64)
        sizes = [notices[0].nbytes + size for size in self._sizes(lent)]
        message = torch.empty(sum(sizes), dtype=torch.uint8, device=rows_NLD.device)
        index = torch.from_numpy(lent.layer_index(rows_NLD.shape[1])).to(rows_NLD.device)
        layers_of, borders = rows_NLD.view(-1, rows_NLD.shape[2]), lent.layer_borders().tolist()
        for rank, part in enumerate(message.split_with_sizes(sizes)):
            row_A = lent.row_A[slice(*lent.border_R[rank : rank + 2])]
            notice, clock, layers = self._views(
                part, len(notices[rank]), len(row_A), borders[rank + 1] - borders[rank]
            )
            notice.copy_(torch.from_numpy(notices[rank]))
            clock.copy_(torch.from_numpy(np.stack([column[row_A] for column in clocks.columns()])))
            here = index[borders[rank] : borders[rank + 1]]
            if self.wire_dtype == rows_NLD.dtype:
                torch.index_select(layers_of, 0, here, out=layers)
            else:
                layers.copy_(layers_of[here])
        return message

    def _keep(self, asked: Asked, arrived: Tensor, num_notices: int = 0) -> Integers:
        """Put rows into their slots; returns the numbers of notice before them, by rank."""
        rows_VLD, clocks = self.borrowed.rows_VLD, self.table.clocks
        index = torch.from_numpy(asked.layer_index(rows_VLD.shape[1])).to(rows_VLD.device)
        layers_of, borders = rows_VLD.view(-1, rows_VLD.shape[2]), asked.layer_borders().tolist()
        sizes, notices = [8 * num_notices + size for size in self._sizes(asked)], []
        for rank, part in enumerate(arrived.split_with_sizes(sizes)):
            slot_A = asked.row_A[slice(*asked.border_R[rank : rank + 2])]
            notice, clock, layers = self._views(
                part, num_notices, len(slot_A), borders[rank + 1] - borders[rank]
            )
            notices.append(notice.cpu().numpy())
            for column, numbers in zip(clocks.columns(), clock.cpu().numpy(), strict=True):
                column[-1 - slot_A] = numbers
            layers_of.index_copy_(0, index[borders[rank] : borders[rank + 1]], layers.to(rows_VLD.dtype))
        return np.stack(notices)

    def _views(
        self, part: Tensor, num_notices: int, num_rows: int, num_layers: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Cut what a rank sends another: notice (numbers), clocks and degrees (1 or 2, A), layers (L, D)."""
        clock_start, width = 8 * num_notices, self.table.rows_NLD.shape[2]
        layers_start = clock_start + 8 * self._numbers_per_clock * num_rows
        layers_stop = layers_start + num_layers * width * self.wire_dtype.itemsize
        notice, clock = part[:clock_start].view(torch.int64), part[clock_start:layers_start]
        layers = part[layers_start:layers_stop].view(self.wire_dtype).view(num_layers, width)
        return notice, clock.view(torch.float64).view(self._numbers_per_clock, num_rows), layers
