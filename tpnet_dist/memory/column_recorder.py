"""Record events that nobody reads by columns: every rank has some columns of all nodes and sends no message.

Columns of rows never meet while events are recorded. So a rank that holds D/R columns of every node's row can
record all events by itself. Afterwards blocks are swapped, and every rank has whole rows of its own nodes.

    two ranks, nodes 0 1 | 2 3, columns a | b       rank 0: 0a 1a 2a 3a      rank 1: 0b 1b 2b 3b
    rank 0 sends 2a 3a, rank 1 sends 0b 1b          rank 0: 0a 0b 1a 1b      rank 1: 2a 2b 3a 3b

Blocks are swapped some nodes at a time, and memory that was sent is given back to the system before more is
taken. So a rank never holds much more than its share of rows. Clocks of all nodes are held until then.
"""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

from tpnet_dist.distributed.blocks import Blocks, even_borders
from tpnet_dist.distributed.exchange import Exchange
from tpnet_dist.distributed.host_memory import ask_for_huge_pages, release_pages
from tpnet_dist.memory.event_run import EventRun, partners
from tpnet_dist.memory.kernels import Clocks, Ends, record_on_host
from tpnet_dist.memory.projection import fill_projection
from tpnet_dist.memory.row_table import RowTable

MOST_MEMORY = 1.15
"""What columns and clocks of all nodes may take at most, as a multiple of a rank's share of rows."""
_BYTES_AT_ONCE = 4 << 20
_LEAST_PIECES = 64
_SECONDS_PER_BYTE = 2.5e-9
"""The time it takes to swap a byte of rows."""
_SECONDS_PER_FEATURE = 4e-9
"""The time it takes to draw a number of P; each rank draws those of all nodes."""
_SECONDS_PER_EVENT = 1e-6
"""The least time per event that recording by columns saves; see benchmarks.propagation."""


class ColumnRecorder:
    """Records the first events of a memory, and fills the rows of its `table` in the end."""

    def __init__(self, table: RowTable, blocks: Blocks, exchange: Exchange, seed: int) -> None:
        self.table, self.blocks, self.exchange, self.seed = table, blocks, exchange, seed

    def is_worthwhile(self, num_events: int) -> bool:
        """Return whether columns save time for so many events, and fit; all ranks evaluate it alike."""
        num_ranks, num_nodes = self.exchange.num_ranks, self.blocks.num_rows
        _, layers, width = self.table.rows_NLD.shape
        number = self.table.rows_NLD.element_size()
        share = num_nodes / num_ranks * layers * width * number
        columns = num_nodes * (
            layers * -(-width // num_ranks) * number + 8 * (1 + self.table.walk.keeps_degree)
        )
        to_begin = num_nodes * width * (1 - 1 / num_ranks) * _SECONDS_PER_FEATURE + share * _SECONDS_PER_BYTE
        return columns <= MOST_MEMORY * share and to_begin < num_events * _SECONDS_PER_EVENT

    def record(self, runs: Iterable[EventRun], epoch: int, progress: Callable[[int], None]) -> float:
        """Record all events from the first on; return the time of the last."""
        walk, rows_NLD = self.table.walk, self.table.rows_NLD
        release_pages(rows_NLD)
        columns_NLD = self._draw(epoch)
        nobody_VLD, clocks = columns_NLD[:0], Clocks.zeros(len(columns_NLD), with_degree=walk.keeps_degree)
        now = 0.0
        for run in runs:
            run.check(len(columns_NLD), now)
            hops_E = np.full(len(run.node_E), walk.hops, np.int8)
            ends = Ends(run.node_E, partners(run.node_E), hops_E, run.time_E, run.border)
            record_on_host(columns_NLD, nobody_VLD, ends, range(run.num_batches), clocks, walk.rules)
            self.exchange.stats.batches += run.num_batches
            self.exchange.stats.ends_replayed += len(run.node_E)
            now = float(run.time_E[-1]) if len(run.time_E) else now
            progress(run.num_events)
        self._swap(columns_NLD)
        own = slice(*self.blocks.range_of(self.exchange.rank))
        for mine, of_all in zip(self.table.own_clocks(), clocks.columns(), strict=True):
            mine[:] = of_all[own]
        return now

    def _columns_of(self, rank: int) -> slice:
        borders = even_borders(self.table.rows_NLD.shape[2], self.exchange.num_ranks)
        return slice(borders[rank], borders[rank + 1])

    def _draw(self, epoch: int) -> Tensor:
        """Make this rank's columns of all nodes' rows as they are before the first event."""
        rows_NLD, mine = self.table.rows_NLD, self._columns_of(self.exchange.rank)
        layers, width = rows_NLD.shape[1:]
        columns_NLD = rows_NLD.new_empty(self.blocks.num_rows, layers, mine.stop - mine.start)
        ask_for_huge_pages(columns_NLD)[:, 1:] = 0
        fill_projection(
            columns_NLD[:, 0],
            kind=self.table.projection,
            first_node=0,
            seed=self.seed,
            epoch=epoch,
            columns=mine,
            width=width,
        )
        return columns_NLD

    def _swap(self, columns_NLD: Tensor) -> None:
        """Swap columns of all nodes for whole rows of own nodes, some nodes of every block at a time."""
        rows_NLD, rank = self.table.rows_NLD, self.exchange.rank
        layers, width = rows_NLD.shape[1:]
        node_bytes, largest = layers * width * rows_NLD.element_size(), self.blocks.rows_per_rank
        at_once = max(1, min(_BYTES_AT_ONCE // node_bytes, -(-largest // _LEAST_PIECES)))
        num_columns = [
            here.stop - here.start for here in map(self._columns_of, range(self.exchange.num_ranks))
        ]
        for start in range(0, largest, at_once):
            parts = [self._piece(owner, start, at_once) for owner in range(self.exchange.num_ranks)]
            sent = [columns_NLD[part] for part in parts]
            own, (first, _) = parts[rank], self.blocks.range_of(rank)
            count = own.stop - own.start
            layer_bytes = count * layers * rows_NLD.element_size()
            arrived = self.exchange.trade(
                torch.cat([part.reshape(-1).view(torch.uint8) for part in sent]),
                [part.nbytes for part in sent],
                [layer_bytes * number for number in num_columns],
            )
            for part in sent:
                release_pages(part)
            pieces = arrived.split_with_sizes([layer_bytes * number for number in num_columns])
            for owner, piece in enumerate(pieces):
                values = piece.view(rows_NLD.dtype).view(count, layers, num_columns[owner])
                rows_NLD[own.start - first : own.stop - first, :, self._columns_of(owner)] = values

    def _piece(self, owner: int, start: int, count: int) -> slice:
        """Return some nodes of a rank's block; blocks may be shorter than others."""
        first, stop = self.blocks.range_of(owner)
        return slice(min(first + start, stop), min(first + start + count, stop))
