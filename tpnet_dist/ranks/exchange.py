"""Rows between ranks: asked of their owners, given back, or sent to them. Knows nothing of what a row means.

A route says how many rows go where; it is made once and serves every trip.

    1. route    each rank says how many rows it has for each owner; the counts cross over, of one trip or many
    2. forward  rows travel from the askers to the owners (ids asked for; messages)
    3. back     rows travel from the owners to the askers (what was asked for)
    4. deliver  rows travel forward, but for those that stay

Two ranks, rank 0 owning rows 0–3 and rank 1 rows 4–7; rank 0 asks for 1 4 6, rank 1 for 0 1:

    rank 0   send_counts 1 2   recv_counts 1 2   forward(1 | 4 6) → 1 | 0 1   back(r1 | r0 r1) → r1 | r4 r6
    rank 1   send_counts 2 0   recv_counts 2 0   forward(0 1 |)   → 4 6 |     back(r4 r6 |)    → r0 r1 |

Every rank enters every trip, also with nothing to send.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import Tensor

from tpnet_dist.ranks.account import ExchangeAccount

Columns = Sequence[Tensor]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ExchangeRoute:
    """How many rows this rank sends to each rank on the way forward, and receives from each."""

    send_counts: list[int]
    recv_counts: list[int]

    def own_rows(self, rank: int) -> tuple[slice, slice]:
        """Where what a rank asks of itself lies, among all it asks for and among all it is asked for."""
        asked_from, served_from = sum(self.send_counts[:rank]), sum(self.recv_counts[:rank])
        count = self.send_counts[rank]
        return slice(asked_from, asked_from + count), slice(served_from, served_from + count)


@dataclass(frozen=True)
class Delivery:
    """Which of some rows stay, and how many go to each rank."""

    own: slice
    """Rows are sorted by owner, so these are neighbours."""
    route: ExchangeRoute
    """Of the others alone."""


class Exchange(Protocol):
    """What the memory needs of an exchange; with one process and with many it is the same to its user."""

    rank: int
    num_ranks: int
    account: ExchangeAccount

    def route(self, send_counts: list[int]) -> ExchangeRoute: ...
    def routes(self, send_counts_GP: Counts) -> list[ExchangeRoute]: ...
    def forward(self, route: ExchangeRoute, columns: Columns) -> list[Tensor]: ...
    def forward_all(self, routes: Sequence[ExchangeRoute], rows: Tensor) -> Sequence[Tensor]: ...
    def back(self, route: ExchangeRoute, columns: Columns) -> list[Tensor]: ...
    def deliver(self, delivery: Delivery, rows: Tensor, dtype: torch.dtype) -> Tensor: ...


class LocalExchange:
    """The twin for one process without a process group: whatever is asked is here."""

    def __init__(self) -> None:
        self.rank, self.num_ranks, self.account = 0, 1, ExchangeAccount()

    def route(self, send_counts: list[int]) -> ExchangeRoute:
        return ExchangeRoute(send_counts, send_counts)

    def routes(self, send_counts_GP: Counts) -> list[ExchangeRoute]:
        return [self.route(send_counts) for send_counts in send_counts_GP.tolist()]

    def forward(self, route: ExchangeRoute, columns: Columns) -> list[Tensor]:
        return list(columns)

    def forward_all(self, routes: Sequence[ExchangeRoute], rows: Tensor) -> Sequence[Tensor]:
        return rows.split_with_sizes([sum(route.send_counts) for route in routes])

    def back(self, route: ExchangeRoute, columns: Columns) -> list[Tensor]:
        return list(columns)

    def deliver(self, delivery: Delivery, rows: Tensor, dtype: torch.dtype) -> Tensor:
        return rows[:0]


class RankExchange:
    """The exchange between the ranks of a process group that nothing else uses."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device) -> None:
        self.rank, self.num_ranks = dist.get_rank(group), dist.get_world_size(group)
        self.account = ExchangeAccount()
        self._group, self._device = group, device

    def route(self, send_counts: list[int]) -> ExchangeRoute:
        mine = torch.tensor(send_counts, dtype=torch.int64, device=self._device)
        theirs = torch.empty_like(mine)
        dist.all_to_all_single(theirs, mine, group=self._group)
        self.account.collectives += 1
        return ExchangeRoute(send_counts, theirs.tolist())

    def routes(self, send_counts_GP: Counts) -> list[ExchangeRoute]:
        """Of G trips, for the price of one."""
        mine_PG = torch.tensor(send_counts_GP.T.copy(), device=self._device)
        theirs_PG = torch.empty_like(mine_PG)
        dist.all_to_all_single(theirs_PG, mine_PG, group=self._group)
        self.account.collectives += 1
        pairs = zip(send_counts_GP.tolist(), theirs_PG.T.tolist(), strict=True)
        return [ExchangeRoute(sent, received) for sent, received in pairs]

    def forward(self, route: ExchangeRoute, columns: Columns) -> list[Tensor]:
        return self._trip(columns, route.send_counts, route.recv_counts)

    def forward_all(self, routes: Sequence[ExchangeRoute], rows: Tensor) -> Sequence[Tensor]:
        """Several trips in one. `rows` of all, trip after trip; returns what each brings."""
        sent_GP = np.array([route.send_counts for route in routes])
        received_GP = np.array([route.recv_counts for route in routes])
        # on the way, what one rank has for another lies together, trip after trip
        by_rank = _order_by_column(sent_GP, rows.device)
        counts_out, counts_in = sent_GP.sum(0).tolist(), received_GP.sum(0).tolist()
        [arrived] = self._trip([rows[by_rank]], counts_out, counts_in)
        by_trip = _order_by_column(received_GP.T, rows.device)
        return arrived[by_trip].split_with_sizes(received_GP.sum(1).tolist())

    def back(self, route: ExchangeRoute, columns: Columns) -> list[Tensor]:
        return self._trip(columns, route.recv_counts, route.send_counts)

    def deliver(self, delivery: Delivery, rows: Tensor, dtype: torch.dtype) -> Tensor:
        """What other ranks sent, rank by rank; `dtype` is that of the journey."""
        others = [rows[: delivery.own.start], rows[delivery.own.stop :]]
        [incoming] = self.forward(delivery.route, [torch.cat(others).to(dtype)])
        return incoming.to(rows.dtype)

    def _trip(self, columns: Columns, counts_out: list[int], counts_in: list[int]) -> list[Tensor]:
        """All columns of a row travel side by side as bytes: one collective, whatever their types."""
        packed = pack(columns)
        arrived = packed.new_empty(sum(counts_in), packed.shape[1])
        dist.all_to_all_single(arrived, packed, counts_in, counts_out, group=self._group)
        account, row_bytes = self.account, packed.shape[1]
        account.collectives += 1
        account.bytes_sent += row_bytes * (sum(counts_out) - counts_out[self.rank])
        account.bytes_received += row_bytes * (sum(counts_in) - counts_in[self.rank])
        return unpack(arrived, columns)


def _order_by_column(counts_XY: Counts, device: torch.device) -> Tensor:
    """How to put items that lie by X, then by Y, in the order of Y, then of X."""
    x, y = counts_XY.shape
    # numbers of 16 bits are sorted by radix
    column = np.tile(np.arange(y, dtype=np.uint16), x).repeat(counts_XY.reshape(-1))
    return torch.from_numpy(column.argsort(kind="stable")).to(device)


def pack(columns: Columns) -> Tensor:
    """(rows, bytes of a row)."""
    parts = [column.reshape(len(column), column.shape[1:].numel()).view(torch.uint8) for column in columns]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def unpack(packed: Tensor, like: Columns) -> list[Tensor]:
    """The columns again, with the types and row shapes of `like`."""
    widths = [column.element_size() * column.shape[1:].numel() for column in like]
    parts = torch.split(packed, widths, dim=1)
    return [
        part.clone(memory_format=torch.contiguous_format)
        .view(column.dtype)
        .view(len(packed), *column.shape[1:])
        for part, column in zip(parts, like, strict=True)
    ]
