"""Rows between ranks: asked of their owners, given back. Knows nothing of what a row means.

A route says how many rows go where; it is made once and serves every trip.

    1. route    each rank says how many rows it has for each owner
    2. forward  rows travel from the askers to the owners (ids asked for)
    3. back     rows travel from the owners to the askers (what was asked for)
    4. trade    bytes travel, so many to each rank; both sides know how many; `send`: and nobody waits yet

Two ranks, rank 0 owning rows 0–3 and rank 1 rows 4–7; rank 0 asks for 1 4 6, rank 1 for 0 1:

    rank 0   send_counts 1 2   recv_counts 1 2   forward(1 | 4 6) → 1 | 0 1   back(r1 | r0 r1) → r1 | r4 r6
    rank 1   send_counts 2 0   recv_counts 2 0   forward(0 1 |)   → 4 6 |     back(r4 r6 |)    → r0 r1 |

Every rank enters every trip, also with nothing to send.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from tpnet_dist.distributed.exchange_stats import ExchangeStats

Columns = Sequence[Tensor]


@dataclass(frozen=True)
class ExchangeRoute:
    """The numbers of rows that this rank sends to each rank on the way forward, and receives from each."""

    send_counts: list[int]
    recv_counts: list[int]


class Exchange(Protocol):
    """What the memory needs of an exchange; one process and many offer the same methods."""

    rank: int
    num_ranks: int
    stats: ExchangeStats

    @property
    def host(self) -> "Exchange":
        """Return an exchange between the same ranks for tensors of the host; it may be used in another
        thread."""

    def route(self, send_counts: list[int]) -> ExchangeRoute: ...
    def forward(self, route: ExchangeRoute, columns: Columns) -> list[Tensor]: ...
    def back(self, route: ExchangeRoute, columns: Columns) -> list[Tensor]: ...
    def trade(self, message: Tensor, bytes_out: list[int], bytes_in: list[int]) -> Tensor: ...
    def send(self, message: Tensor, bytes_out: list[int], bytes_in: list[int]) -> "Arriving": ...


@dataclass(frozen=True)
class Arriving:
    """Holds bytes that are on their way to this rank."""

    arrived: Tensor
    message: Tensor
    """What this rank sends; it must stay in memory until it has gone."""
    work: dist.Work | None

    def wait(self) -> Tensor:
        if self.work is not None:
            self.work.wait()
        return self.arrived


class LocalExchange:
    """The twin for one process without a process group: whatever is asked is here."""

    def __init__(self) -> None:
        self.rank, self.num_ranks, self.stats = 0, 1, ExchangeStats()

    @property
    def host(self) -> "LocalExchange":
        return self

    def route(self, send_counts: list[int]) -> ExchangeRoute:
        return ExchangeRoute(send_counts, send_counts)

    def forward(self, route: ExchangeRoute, columns: Columns) -> list[Tensor]:
        return list(columns)

    def back(self, route: ExchangeRoute, columns: Columns) -> list[Tensor]:
        return list(columns)

    def trade(self, message: Tensor, bytes_out: list[int], bytes_in: list[int]) -> Tensor:
        return message

    def send(self, message: Tensor, bytes_out: list[int], bytes_in: list[int]) -> Arriving:
        return Arriving(message, message, None)


class RankExchange:
    """The exchange between the ranks of a process group that nothing else uses."""

    def __init__(
        self, group: dist.ProcessGroup, device: torch.device, host_group: dist.ProcessGroup | None = None
    ) -> None:
        """`host_group`: a group of the same ranks, where the group takes no tensors of the host."""
        self.rank, self.num_ranks = dist.get_rank(group), dist.get_world_size(group)
        self._group, self._device = group, device
        self._stats = ExchangeStats()
        self.host: RankExchange = self
        if host_group is not None:
            self.host = RankExchange(host_group, torch.device("cpu"))
            self.stats = self._stats

    @property
    def stats(self) -> ExchangeStats:
        """Return the stats that this exchange and the one for the host share."""
        return self._stats

    @stats.setter
    def stats(self, stats: ExchangeStats) -> None:
        self._stats = self.host._stats = stats

    def route(self, send_counts: list[int]) -> ExchangeRoute:
        mine_R = torch.tensor(send_counts, device=self._device)
        theirs_R = torch.empty_like(mine_R)
        dist.all_to_all_single(theirs_R, mine_R, group=self._group)
        self.stats.count_collective()
        return ExchangeRoute(send_counts, theirs_R.tolist())

    def forward(self, route: ExchangeRoute, columns: Columns) -> list[Tensor]:
        return self._trip(columns, route.send_counts, route.recv_counts)

    def back(self, route: ExchangeRoute, columns: Columns) -> list[Tensor]:
        return self._trip(columns, route.recv_counts, route.send_counts)

    def trade(self, message: Tensor, bytes_out: list[int], bytes_in: list[int]) -> Tensor:
        return self.send(message, bytes_out, bytes_in).wait()

    def send(self, message: Tensor, bytes_out: list[int], bytes_in: list[int]) -> Arriving:
        arrived = message.new_empty(sum(bytes_in))
        work = dist.all_to_all_single(arrived, message, bytes_in, bytes_out, group=self._group, async_op=True)
        others_out, others_in = (sum(counts) - counts[self.rank] for counts in (bytes_out, bytes_in))
        self.stats.count_collective(others_out, others_in)
        return Arriving(arrived, message, work)

    def _trip(self, columns: Columns, counts_out: list[int], counts_in: list[int]) -> list[Tensor]:
        """Send the rows' columns. All columns of a row travel side by side as bytes: one collective, whatever
        their types."""
        packed = pack(columns)
        row_bytes = packed.shape[1]
        sizes_out, sizes_in = ([row_bytes * count for count in counts] for counts in (counts_out, counts_in))
        arrived = self.trade(packed.reshape(-1), sizes_out, sizes_in).view(-1, row_bytes)
        return unpack(arrived, columns)


def pack(columns: Columns) -> Tensor:
    """Put all columns of a row side by side as bytes: (rows, bytes of a row)."""
    parts = [column.reshape(len(column), column.shape[1:].numel()).view(torch.uint8) for column in columns]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def unpack(packed: Tensor, like: Columns) -> list[Tensor]:
    """Return the columns again, with the types and row shapes of `like`."""
    widths = [column.element_size() * column.shape[1:].numel() for column in like]
    parts = torch.split(packed, widths, dim=1)
    return [
        part.clone(memory_format=torch.contiguous_format)
        .view(column.dtype)
        .view(len(packed), *column.shape[1:])
        for part, column in zip(parts, like, strict=True)
    ]
