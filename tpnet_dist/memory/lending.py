"""The one exchange of a run: each rank asks the owners for layers of rows, and is asked.

    1. meet    how many rows each rank asks of each, and whether they fit
    2. ask     which rows and layers: ids to the owners
    3. lend    the layers, with the rows' clocks, back to the askers
    4. keep    what arrived goes into its slots

What one rank lends another lies together as bytes: clocks, degrees if there are any, layers, and up to seven
bytes of padding. Both sides can tell its length.

Shape letters: A rows, L layers, D width, C slots.
"""

import numpy as np
import torch
from torch import Tensor

from tpnet_dist.memory.borrowed import BorrowedRows
from tpnet_dist.memory.rows import RowTable
from tpnet_dist.memory.run_length import Fit
from tpnet_dist.memory.run_plan import Asked, RunPlan
from tpnet_dist.ranks.exchange import Exchange

ID_BYTES = 8
"""Of a row that is asked for."""


def loan_bytes(asked: Asked, layer_bytes: int, clock_bytes: int) -> list[int]:
    """What each rank lends another, or is lent."""
    clocks_R, layers_R = clock_bytes * np.diff(asked.border_R), layer_bytes * np.diff(asked.layer_borders())
    sizes: list[int] = (clocks_R + -(-layers_R // 8) * 8).tolist()
    return sizes


class Lending:
    """Between this rank's rows and those it borrows."""

    def __init__(
        self, table: RowTable, borrowed: BorrowedRows, exchange: Exchange, wire_dtype: torch.dtype
    ) -> None:
        self.table, self.borrowed, self.exchange, self.wire_dtype = table, borrowed, exchange, wire_dtype

    def carry_out(self, plan: RunPlan) -> Fit:
        """All four stages; returns how borrowed rows fit where they fit least."""
        exchange, device = self.exchange, self.table.rows_NLD.device
        # 1. meet
        counts, fit = np.diff(plan.asked.border_R).tolist(), self.borrowed.fit(plan.num_needed)
        route, fits = exchange.meet(counts, fit)
        # 2. ask
        ids = torch.from_numpy(plan.asked.packed(plan.owner_row_A)).to(device)
        [ids] = exchange.forward(route, [ids])
        lent = Asked.unpacked(ids.cpu().numpy(), route.recv_counts)
        # 3. lend
        arrived = exchange.trade(self._lend(lent), self.bytes_of(lent), self.bytes_of(plan.asked))
        # 4. keep
        self._keep(plan.asked, arrived)
        exchange.account.rows_borrowed += len(plan.asked.row_A)
        exchange.account.rows_needed += plan.num_needed
        return Fit(max(fits))

    def bytes_of(self, asked: Asked) -> list[int]:
        """By rank."""
        layer_bytes = self.table.rows_NLD.shape[2] * self.wire_dtype.itemsize
        return loan_bytes(asked, layer_bytes, 8 * self._numbers_per_clock)

    @property
    def _numbers_per_clock(self) -> int:
        return len(self.table.clocks.columns())

    def _lend(self, lent: Asked) -> Tensor:
        rows_NLD, clocks = self.table.rows_NLD, self.table.clocks
        sizes = self.bytes_of(lent)
        message = torch.empty(sum(sizes), dtype=torch.uint8, device=rows_NLD.device)
        index = torch.from_numpy(lent.layer_index(rows_NLD.shape[1])).to(rows_NLD.device)
        layers_of, borders = rows_NLD.view(-1, rows_NLD.shape[2]), lent.layer_borders().tolist()
        for rank, part in enumerate(message.split_with_sizes(sizes)):
            row_A = lent.row_A[slice(*lent.border_R[rank : rank + 2])]
            clock, layers = self._views(part, len(row_A), borders[rank + 1] - borders[rank])
            clock.copy_(torch.from_numpy(np.stack([column[row_A] for column in clocks.columns()])))
            here = index[borders[rank] : borders[rank + 1]]
            if self.wire_dtype == rows_NLD.dtype:
                torch.index_select(layers_of, 0, here, out=layers)
            else:
                layers.copy_(layers_of[here])
        return message

    def _keep(self, asked: Asked, arrived: Tensor) -> None:
        rows_CLD, clocks = self.borrowed.rows_CLD, self.table.clocks
        index = torch.from_numpy(asked.layer_index(rows_CLD.shape[1])).to(rows_CLD.device)
        layers_of, borders = rows_CLD.view(-1, rows_CLD.shape[2]), asked.layer_borders().tolist()
        for rank, part in enumerate(arrived.split_with_sizes(self.bytes_of(asked))):
            slot_A = asked.row_A[slice(*asked.border_R[rank : rank + 2])]
            clock, layers = self._views(part, len(slot_A), borders[rank + 1] - borders[rank])
            for column, numbers in zip(clocks.columns(), clock.cpu().numpy(), strict=True):
                column[-1 - slot_A] = numbers
            layers_of.index_copy_(0, index[borders[rank] : borders[rank + 1]], layers.to(rows_CLD.dtype))

    def _views(self, part: Tensor, num_rows: int, num_layers: int) -> tuple[Tensor, Tensor]:
        """Of what one rank lends another: clocks and degrees (1 or 2, A), layers (layers, D)."""
        clock_bytes = 8 * self._numbers_per_clock * num_rows
        layer_bytes = num_layers * self.table.rows_NLD.shape[2] * self.wire_dtype.itemsize
        layers = part[clock_bytes : clock_bytes + layer_bytes].view(self.wire_dtype)
        clock = part[:clock_bytes].view(torch.float64).view(self._numbers_per_clock, num_rows)
        return clock, layers.view(num_layers, self.table.rows_NLD.shape[2])
