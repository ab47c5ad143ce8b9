"""The propagation memory: rows are read before each batch of a run, then the batch is replayed on them.

    1. plan     what this rank's slices read, what must be replayed for that, which rows must be borrowed
    2. arrange  ranks tell one another which rows they borrow
    3. borrow   layers of rows travel, for the whole run at once
    4. read     rows before a batch, own and borrowed ones
    5. record   replay the batch, on own rows and on the borrowed ones that are still wanted

Stages 1 to 3 are `open_runs`' affair, of a whole run; 4 and 5 go batch by batch.

Two ranks, nodes 0 1 | 2 3, one hop, a run of two batches (0,2) | (2,3); rank 0 reads row 2 before the second:

    plan     rank 0 wants row 2, on which the first batch must be replayed; rank 1 wants layer 0 of row 0
    arrange  both tell the other
    borrow   rank 0 gets layers 0 1 of row 2, rank 1 layer 0 of row 0
    record   batch 0: rank 0 replays (0,2) on rows 0 and 2, rank 1 on row 2
    read     rank 0 reads row 2, which is to the last bit what rank 1 has
    record   batch 1: rank 1 replays (2,3) on rows 2 and 3

Nothing is ever summed across ranks. So rows have the same bits on any number of ranks.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from tpnet_dist.device_forms import in_full_float32
from tpnet_dist.distributed.blocks import Blocks
from tpnet_dist.distributed.exchange import Exchange, LocalExchange
from tpnet_dist.distributed.packed_copy import PackedCopy
from tpnet_dist.errors import InputError
from tpnet_dist.memory.borrowed_rows import BorrowedRows
from tpnet_dist.memory.column_recorder import ColumnRecorder
from tpnet_dist.memory.device_batch import DeviceBatch, terms_recorder_for
from tpnet_dist.memory.event_run import BatchEvents, EventRun, Integers
from tpnet_dist.memory.fetched_rows import FetchedRows
from tpnet_dist.memory.kernels import record_on_host
from tpnet_dist.memory.open_runs import OpenRuns
from tpnet_dist.memory.projection import ProjectionKind
from tpnet_dist.memory.row_table import RowTable
from tpnet_dist.memory.run_exchange import RunExchange
from tpnet_dist.memory.run_length import RunLength
from tpnet_dist.memory.run_plan import RunPlan, distinct_nodes
from tpnet_dist.memory.walks import Walk

CatchUp = Literal["auto", "columns", "nodes"]
"""The ways to record events that nobody reads: see `columns`."""

_BORDER_BYTES = 16


class Memory:
    """This rank's share of the memory; with `LocalExchange` all of it."""

    def __init__(
        self,
        num_nodes: int,
        walk: Walk,
        width: int,
        *,
        seed: int = 0,
        exchange: Exchange | None = None,
        projection: ProjectionKind = "normal",
        dtype: torch.dtype = torch.float32,
        exchange_dtype: torch.dtype | None = None,
        borrowed_rows: int = 0,
        run_batches: int | None = None,
        catch_up: CatchUp = "auto",
        triton: bool = True,
        device: torch.device | str = "cpu",
    ) -> None:
        """`borrowed_rows`: how many copies of other ranks' rows this one may keep, beyond what one batch
        needs; `run_batches`: how many batches ranks meet for at once; `catch_up`: how events nobody reads
        are recorded. None of them changes a result. `triton`: on CUDA Triton's kernels where they are."""
        _check_width(num_nodes, width, projection)
        # config
        self.num_nodes, self.walk, self.width, self.seed = num_nodes, walk, width, seed
        self.device = torch.device(device)
        # parts
        self.exchange: Exchange = exchange or LocalExchange()
        self.blocks = Blocks(num_nodes, self.exchange.num_ranks)
        self.first_node, self.stop_node = self.blocks.range_of(self.exchange.rank)
        self.table = RowTable(
            walk,
            width,
            first_node=self.first_node,
            num_nodes=self.stop_node - self.first_node,
            projection=projection,
            dtype=dtype,
            device=self.device,
        )
        remote = num_nodes - (self.stop_node - self.first_node)
        self.borrowed = BorrowedRows(borrowed_rows, remote, self.table.rows_NLD, self.table.clocks)
        run_exchange = RunExchange(self.table, self.borrowed, self.exchange, exchange_dtype or dtype)
        self.runs = OpenRuns(walk, self.blocks, self.borrowed, run_exchange, RunLength(run_batches))
        self.columns = ColumnRecorder(self.table, self.blocks, self.exchange, seed)
        self._catch_up_by = catch_up
        self.stream = _own_stream(self.device)
        self._record_terms = terms_recorder_for(self.device, triton=triton)
        # progress
        self.epoch = 0
        self._is_fresh = True
        """Whether nothing was recorded since rows were drawn."""
        self._planned_until = self._planned_until_at_snapshot = 0.0
        self.reset(0)

    def reset(self, epoch: int) -> None:
        """Forget every event; P is drawn anew for each epoch."""
        self.epoch = epoch
        self._planned_until = 0.0
        self.runs.drop()
        self._is_fresh = True
        self.table.reset(seed=self.seed, epoch=epoch)
        self.borrowed.clear()

    def plan(self, batches: Sequence[BatchEvents], reads: Sequence[Tensor | None] | None = None) -> RunPlan:
        """Stage 1, of consecutive batches. `reads`: for each the nodes whose rows this rank wants before it,
        repetitions allowed. Refuses what would corrupt the memory, before any collective."""
        nodes = [distinct_nodes(wanted, self.num_nodes) for wanted in reads or [None] * len(batches)]
        return self.plan_events(EventRun.of(batches), nodes)

    def plan_events(self, run: EventRun, nodes: list[Integers]) -> RunPlan:
        run.check(self.num_nodes, self._planned_until)
        self._is_fresh = self._is_fresh and not run.num_events
        self._planned_until = float(run.time_E[-1]) if len(run.time_E) else self._planned_until
        return self.runs.plan(run, nodes)

    def device_batches(self, plan: RunPlan) -> list[DeviceBatch]:
        """Return what reading and recording each batch of a run needs on a GPU, still on the host."""
        return [DeviceBatch.of(plan, batch, self.walk.rules) for batch in range(plan.num_batches)]

    def _sent(self, plan: RunPlan, batch: int) -> DeviceBatch:
        """Send a batch to the device now, where nobody has sent it ahead."""
        here = DeviceBatch.of(plan, batch, self.walk.rules)
        return here.at(PackedCopy(here.tensors(), self.device).arrive())

    def read(
        self, plan: RunPlan, batch: int, *, products: bool = True, sent: DeviceBatch | None = None
    ) -> FetchedRows:
        """Stage 4: the rows wanted before a batch, when all before it are recorded. `sent`: what a GPU needs
        for it, if that is there."""
        with self.exchange.stats.stage("read"):
            if self.device.type != "cpu":
                sent = sent or self._sent(plan, batch)
                nodes_U, place_U, rows_ULD = sent.nodes_U, sent.place_U, self._gather(sent.row_U, sent.own)
            else:
                nodes_U, place_U = torch.from_numpy(plan.nodes[batch]), torch.from_numpy(plan.places[batch])
                row_U, own = plan.rows(batch)
                rows_ULD = self._gather(torch.from_numpy(row_U), own)
            clock_U, *degree_U = (column[place_U] for column in self.table.clocks.columns())
            with in_full_float32():
                products_ULL = _products(rows_ULD) if products else None
            return FetchedRows(
                nodes_U, rows_ULD, clock_U, degree_U[0] if degree_U else None, products_ULL, self.walk
            )

    def record(self, plan: RunPlan, batches: range | None = None, *, sent: DeviceBatch | None = None) -> None:
        """Stage 5: replay some of the run's batches, or all. `sent`: what a GPU needs for a single one."""
        assert self.runs.is_first(plan), "runs are recorded in the order they were planned, each once"
        batches = batches or range(plan.num_batches)
        ends, stats, clocks = plan.ends, self.exchange.stats, self.table.clocks
        with stats.stage("record"):
            here = slice(ends.border[batches.start], ends.border[batches.stop])
            receiver_E = ends.receiver_E[here]
            self.table.will_change(receiver_E[receiver_E >= 0])
            own, borrowed, rules = self.table.rows_NLD, self.borrowed.rows_VLD, self.walk.rules
            if self.device.type == "cpu":
                record_on_host(own, borrowed, ends, batches, clocks, rules)
            else:
                for batch in batches:
                    terms = (sent or self._sent(plan, batch)).terms
                    self._record_terms(own, borrowed, clocks, terms, rules)
        stats.batches += len(batches)
        stats.ends_replayed += len(receiver_E)
        if batches.stop == plan.num_batches:
            self.runs.close_first()

    def run(
        self,
        batches: Sequence[BatchEvents],
        reads: Sequence[Tensor | None] | None = None,
        *,
        products: bool = True,
    ) -> Iterator[FetchedRows]:
        """Go through all stages of a run: yield rows before each batch, which is recorded once the next is
        asked for."""
        plan = self.plan(batches, reads)
        self.runs.borrow(plan)
        for batch in range(plan.num_batches):
            yield self.read(plan, batch, products=products)
            self.record(plan, range(batch, batch + 1))

    def look(self, nodes: Tensor, *, products: bool = True) -> FetchedRows:
        """Return rows as they are now. Every rank must call it, with whichever nodes it wants."""
        [rows] = self.run([BatchEvents.none()], [nodes], products=products)
        return rows

    def catch_up(
        self,
        runs: Iterable[EventRun],
        num_events: int,
        *,
        progress: Callable[[int], None] = lambda num_events: None,
    ) -> None:
        """Record batches that nobody reads, `num_events` in all; `progress` is told how many are done."""
        self.assert_all_recorded()
        if self._takes_columns(num_events):
            self._is_fresh = False
            self.borrowed.forget_events()
            with self.exchange.stats.stage("columns"):
                self._planned_until = self.columns.record(runs, self.epoch, progress)
            return
        for plan in self.runs.in_turn(self._plan_unread(runs)):
            self.record(plan)
            progress(plan.num_events)

    def _plan_unread(self, runs: Iterable[EventRun]) -> Iterator[RunPlan]:
        for run in runs:
            first = 0
            while first < run.num_batches:
                stop = min(run.num_batches, first + self.runs.length.batches(read=False))
                yield self.plan_events(run.batches(first, stop), [np.empty(0, np.int64)] * (stop - first))
                first = stop

    def _takes_columns(self, num_events: int) -> bool:
        """Return whether events are recorded by columns: they must begin with the log's first, and rows on a
        GPU stay there."""
        is_new = self._is_fresh and self.table.is_drawn
        if not (is_new and num_events) or self.exchange.num_ranks == 1 or self.device.type != "cpu":
            return False
        return self._catch_up_by == "columns" or (
            self._catch_up_by == "auto" and self.columns.is_worthwhile(num_events)
        )

    def _gather(self, row_U: Tensor, own: slice) -> Tensor:
        """Gather rows, of which those at `own` are own ones."""
        rows_NLD, rows_VLD = self.table.rows_NLD, self.borrowed.rows_VLD
        rows_ULD = rows_NLD.new_empty(len(row_U), *rows_NLD.shape[1:])
        for table, here in (
            (rows_VLD, slice(0, own.start)),
            (rows_NLD, own),
            (rows_VLD, slice(own.stop, None)),
        ):
            if len(row_U[here]):
                torch.index_select(table, 0, row_U[here], out=rows_ULD[here])
        return rows_ULD

    def assert_all_recorded(self) -> None:
        assert not len(self.runs), "a planned run is not recorded yet"

    def recorded(self) -> list[Tensor]:
        """Return rows, clocks and degrees as they are now; not copies."""
        self.assert_all_recorded()
        return [self.table.rows_NLD, *self.table.own_clocks()]

    def go_on_from(self, columns: Sequence[Tensor]) -> float:
        """Take what `recorded` gave another time, instead of recording the events again, where one rank has
        all rows; return the time of the last event."""
        assert self.exchange.num_ranks == 1, "the last event may be of another rank's rows"
        for mine, kept in zip(self.recorded(), columns, strict=True):
            mine.copy_(kept.detach())
        # a clock is the time of its row's last event
        self._planned_until, self._is_fresh = float(self.table.own_clocks()[0].max()), False
        return self._planned_until

    def snapshot(self) -> None:
        """Mark this moment for `restore`; later events cost the rows they touch, not a copy of all."""
        self.assert_all_recorded()
        self._planned_until_at_snapshot = self._planned_until
        self.table.snapshot()

    def restore(self) -> None:
        """Go back to the snapshot, which stays in force until `forget_snapshot`."""
        self._planned_until = self._planned_until_at_snapshot
        self.table.restore()
        if not len(self.runs):
            self.borrowed.forget_events()
        else:
            # copies that a run was to bring did not come
            self.borrowed.clear()
        self.runs.drop()

    def forget_snapshot(self) -> None:
        self.table.forget_snapshot()


def _products(rows_ULD: Tensor) -> Tensor:
    """Return the products, (U, L, L): inner products of each row's layers, with the same bits wherever among
    the U the row lies: a matrix product rounds otherwise where its matrices do not begin at a border of 16
    bytes."""
    num_rows, layers, width = rows_ULD.shape
    spare = -layers * width % (_BORDER_BYTES // rows_ULD.element_size())
    if spare:
        apart_UD = rows_ULD.new_empty(num_rows, layers * width + spare)[:, : layers * width]
        rows_ULD = apart_UD.view(num_rows, layers, width).copy_(rows_ULD)
    return torch.bmm(rows_ULD, rows_ULD.transpose(1, 2))


def _own_stream(device: torch.device) -> torch.cuda.Stream | None:
    """Return a stream for whatever runs ahead of the consumer; None where there are no streams.

    One for the memory's life: torch deals its 32 streams of a priority in turn, to NCCL too, so one for each
    pipeline would some day be the one that gradients travel on, where two orders of collectives deadlock. And
    freed buffers are kept by stream. NCCL's are of the other priority.
    """
    return torch.cuda.Stream(device, priority=-1) if device.type == "cuda" else None  # type: ignore[no-untyped-call]


def _check_width(num_nodes: int, width: int, projection: ProjectionKind) -> None:
    if projection not in get_args(ProjectionKind):
        raise InputError(
            f"projection {projection!r} is unknown; choose {' or '.join(get_args(ProjectionKind))}"
        )
    if width < 1:
        raise InputError(f"width is {width}, but rows have at least 1 column; raise it")
    if projection == "identity" and width != num_nodes:
        raise InputError(
            f"width is {width}, but the identity projection has a column for each node; make it {num_nodes}"
        )
