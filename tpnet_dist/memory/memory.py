"""The propagation memory: plan → fetch → record, exact, with a cost that does not depend on the nodes.

    1. plan    which rows this rank's slice needs, who owns them, who sends messages for which rows; clocks
    2. fetch   ids to the owners (already in the plan), rows back; unchanged ones may be held here
    3. record  messages from the rows just fetched, summed per receiver and portion, sent to the owners, added

fetch(b) → record(b) → fetch(b+1) is the only order that matters; whoever consumes fetched rows is not in it.

Two ranks, nodes 0 1 | 2 3, a batch of two events (0,2) and (2,3), one scored by each rank:

    rank 0 fetches rows 0 2, adds its message of 2 to 0 (its own) and sends that of 0 to 2 (rank 1's)
    rank 1 fetches rows 2 3, adds its messages to 2 and 3 (its own), and to 2 that of rank 0

Shape letters: U fetched nodes, W sums, A own rows of one portion, Y sums of shared ones, L layers, k hops,
D width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from tpnet_dist.errors import InputError
from tpnet_dist.memory.clocks import Clocks
from tpnet_dist.memory.fetch_plan import FetchPlan
from tpnet_dist.memory.memory_plan import ID_BYTES, MemoryPlan, plans_of
from tpnet_dist.memory.plan import BatchEvents, EventRun, Floats, check_nodes
from tpnet_dist.memory.projection import ProjectionKind
from tpnet_dist.memory.record_plan import RecordPlan, RecordPlanner
from tpnet_dist.memory.row_cache import CacheRun, RowCache
from tpnet_dist.memory.rows import RowTable, StoredRows
from tpnet_dist.memory.touched import Touched
from tpnet_dist.memory.walks import Walk
from tpnet_dist.ranks.blocks import Blocks
from tpnet_dist.ranks.exchange import Exchange, LocalExchange
from tpnet_dist.ranks.portions import Portions


@dataclass(frozen=True)
class FetchedRows:
    """Rows of distinct nodes as they were before the batch."""

    nodes_U: Tensor
    stored: StoredRows
    walk: Walk

    def position_of(self, nodes: Tensor) -> Tensor:
        """Where the rows of `nodes`, which must be among the fetched ones, lie."""
        return torch.searchsorted(self.nodes_U, nodes)

    def read_factors(self, position_N: Tensor, time_N: Tensor) -> Tensor:
        """What to multiply stored layers by to read them at `time`; products take the factors of both."""
        stored = self.stored
        elapsed_N = time_N - stored.clock_U[position_N]
        degree_N = None if stored.degree_U is None else stored.degree_U[position_N]
        return self.walk.read_factors(elapsed_N, degree_N).to(stored.rows_ULD.dtype)

    def read(self, nodes_N: Tensor, time_N: Tensor) -> Tensor:
        """The nodes' rows of the walk matrices' projections at `time`: (N, L, D)."""
        position_N = self.position_of(nodes_N)
        return self.stored.rows_ULD[position_N] * self.read_factors(position_N, time_N)[:, :, None]


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
        cache_rows: int = 0,
        portions: int | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """`cache_rows`: how many of other ranks' rows this one may keep; changes no result. `portions`: of
        every batch, see `ranks.portions`."""
        _check_width(num_nodes, width, projection)
        # config
        self.num_nodes, self.walk, self.width, self.seed = num_nodes, walk, width, seed
        self.device = torch.device(device)
        self._wire_dtype = exchange_dtype or dtype
        # parts
        self.exchange: Exchange = exchange or LocalExchange()
        self.blocks = Blocks(num_nodes, self.exchange.num_ranks)
        self.portions = Portions.of(portions, self.exchange.rank, self.exchange.num_ranks, self.device.type)
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
        self.stream = _own_stream(self.device)
        self.clocks = Clocks(num_nodes, walk)
        self.cache = self._new_cache(cache_rows)
        # progress
        self.epoch = 0
        self._next_turn = 0
        self._turn = 0
        self._planned_until = 0.0
        self._planned_until_at_snapshot = 0.0
        self.reset(0)

    def reset(self, epoch: int) -> None:
        """Forget every event; P is drawn anew for each epoch."""
        self.epoch = epoch
        self._planned_until = 0.0
        self._forget_plans()
        self.clocks.reset()
        self.table.reset(seed=self.seed, epoch=epoch)

    def plan(self, events: BatchEvents, needed: Tensor | None = None, *, record: bool = True) -> MemoryPlan:
        """Stage 1. `needed`: further nodes whose rows this rank's slice wants, repetitions allowed."""
        [plan] = self.plan_run([events], [needed], record=record)
        return plan

    def plan_run(
        self,
        batches: Sequence[BatchEvents],
        needed: Sequence[Tensor | None] | None = None,
        *,
        record: bool = True,
        at_once: bool = False,
    ) -> list[MemoryPlan]:
        """Stage 1 for consecutive batches, for a fraction of its cost one by one.

        `at_once`: all see the memory before the first, and whoever records them together moves the clocks.
        """
        needed = needed or [None] * len(batches)
        run = self.check(batches, needed, record=record)
        with self.exchange.account.stage("plan"):
            touched = Touched.by(run, self.blocks, self.portions)
            fetch = FetchPlan.of(touched, needed, self.clocks, record=record, at_once=at_once)
            self._count(touched, fetch, needed, record)
            records: Sequence[RecordPlan | None] = [None] * len(batches)
            if record and len(run.time_N):
                planner = RecordPlanner(touched, fetch, self.walk, self.device)
                records = planner.plan(self.table.rows_NLD.dtype)
                self._planned_until = float(run.time_N[-1])
            records = [plan if size else None for plan, size in zip(records, run.sizes.tolist(), strict=True)]
            # copies are of no use where layers travel one by one, as they are stored, and where every row
            # that is fetched is recorded: it changes at once
            keep = not at_once and not (record and all(nodes is None for nodes in needed))
            cached = self._plan_cache(touched, fetch, record=record, keep=keep)
            plans = plans_of(self.exchange, fetch, cached, records, self._next_turn, self.device)
            self._next_turn += sum(plan is not None for plan in records)
            return plans

    def fetch(self, plan: MemoryPlan, *, products: bool = True) -> FetchedRows:
        """Stage 2: the planned rows, as they are now; `products` says whether with their self-products."""
        assert plan.turn == self._turn, "rows are fetched when all batches planned before are recorded"
        with self.exchange.account.stage("fetch"):
            # what is kept is kept with its products: a later batch may want them
            served, *others = self.table.read(plan.served, products=products or plan.cached is not None)
            columns = self.exchange.back(plan.route, [served.to(self._wire_dtype), *others])
            if plan.cached is not None and self.cache is not None:
                columns = self.cache.assemble(plan.cached, columns)
            rows_ULD = columns[0].to(served.dtype)
            if self._wire_dtype != served.dtype:
                # own rows are carried on from here: rounded anew for each batch, small messages would vanish
                _, served_here = plan.route.own_rows(self.exchange.rank)
                rows_ULD[plan.own_U] = served[served_here]
            stored = StoredRows(rows_ULD, plan.clock_U, plan.degree_U, columns[1] if products else None)
            return FetchedRows(plan.nodes_U, stored, self.walk)

    def record(self, plan: MemoryPlan, fetched: FetchedRows) -> None:
        """Stage 3: add the batch's events. `fetched` is what `fetch` gave for this plan."""
        recording = plan.record
        if recording is None:
            return
        self.take_turn(plan)
        with self.exchange.account.stage("record"):
            rows_ULD = fetched.stored.rows_ULD
            sums_WkD = recording.sums.of_rows(rows_ULD)
            incoming_YkD = self.exchange.deliver(recording.delivery, sums_WkD, self._wire_dtype)
            alone_AkD, own_YkD = recording.kept(sums_WkD)
            self.table.write(recording.local_A, alone_AkD)
            if len(recording.local_S):
                new_SkD = recording.shared.of_rows(rows_ULD, own_YkD, incoming_YkD)
                self.table.write(recording.local_S, new_SkD)

    def take_turn(self, plan: MemoryPlan) -> None:
        assert plan.turn == self._turn, "plans are recorded in the order they were made, each once"
        self._turn += 1

    def assert_all_recorded(self) -> None:
        """Clocks move when a batch is planned, rows when it is recorded: in between they do not match."""
        assert self._turn == self._next_turn, "a planned batch is not recorded yet"

    def snapshot(self) -> None:
        """Mark this moment for `restore`; later events cost the rows they touch, not a copy of all."""
        self.assert_all_recorded()
        self._planned_until_at_snapshot = self._planned_until
        self.table.snapshot()
        self.clocks.snapshot()

    def restore(self) -> None:
        """Back to the snapshot, which stays in force until `forget_snapshot`."""
        self._planned_until = self._planned_until_at_snapshot
        self.table.restore()
        self.clocks.restore()
        self._forget_plans()

    def forget_snapshot(self) -> None:
        self.table.forget_snapshot()
        self.clocks.forget_snapshot()

    def state_dict(self) -> dict[str, Tensor]:
        """This rank's block, not a copy; blocks follow one another in the order of ranks."""
        self.assert_all_recorded()
        return self._state()

    def _state(self) -> dict[str, Tensor]:
        own = slice(self.first_node, self.stop_node)
        return {
            "rows": self.table.rows_NLD,
            "clock": torch.from_numpy(self.clocks.clock_N[own]),
            "degree": torch.from_numpy(self.clocks.degree_N[own]),
            "progress": torch.tensor([self.epoch, self._planned_until], dtype=torch.float64),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Every rank must call it: they tell one another their clocks."""
        for name, own in self._state().items():
            if state[name].shape != own.shape:
                raise InputError(
                    f"the saved memory's {name} have shape {tuple(state[name].shape)}, this rank's block "
                    f"{tuple(own.shape)}; load it with the nodes, walk and width it was saved with"
                )
        self.table.load(state["rows"])
        self.clocks.load(self._all_blocks(state["clock"]), self._all_blocks(state["degree"]))
        epoch, self._planned_until = state["progress"].tolist()
        self.epoch = int(epoch)
        self._forget_plans()

    def check(
        self, batches: Sequence[BatchEvents], needed: Sequence[Tensor | None] = (), *, record: bool = True
    ) -> EventRun:
        """Refuse what would corrupt the memory, before any collective."""
        for nodes in needed:
            if nodes is not None:
                check_nodes(nodes, self.num_nodes, "needed node {row}: id")
        run = EventRun.of(batches)
        if not run.is_clean(self.num_nodes, self._planned_until):
            not_before = self._planned_until
            for events in batches:
                events.check(self.num_nodes, not_before)
                if record and len(events):
                    not_before = float(events.time_B[-1])
        return run

    def _plan_cache(self, touched: Touched, fetch: FetchPlan, *, record: bool, keep: bool) -> CacheRun | None:
        if self.cache is None:
            return None
        if not keep:
            self.cache.drop(touched)
            return None
        cached = self.cache.plan_run(touched, fetch, record=record)
        account, num_held = self.exchange.account, int(cached.is_held_U.sum())
        account.rows_held += num_held
        account.bytes_saved += num_held * (self.cache.bytes_per_row + ID_BYTES)
        return cached

    def _forget_plans(self) -> None:
        """What was planned for rows that are gone is not fetched, nor recorded."""
        self._turn = self._next_turn
        if self.cache is not None:
            self.cache.clear()

    def _new_cache(self, capacity: int) -> RowCache | None:
        own = slice(self.first_node, self.stop_node)
        capacity = min(capacity, self.num_nodes - (own.stop - own.start))
        if capacity <= 0:
            return None
        return RowCache(
            self.num_nodes,
            capacity,
            own,
            (self.walk.layers, self.width),
            dtype=self.table.rows_NLD.dtype,
            wire_dtype=self._wire_dtype,
            device=self.device,
        )

    def _count(
        self, touched: Touched, fetch: FetchPlan, needed: Sequence[Tensor | None], record: bool
    ) -> None:
        account, rank = self.exchange.account, self.exchange.rank
        account.batches += touched.num_batches
        account.rows_wanted += len(touched.mine_M) + sum(len(nodes) for nodes in needed if nodes is not None)
        account.rows_fetched += fetch.num_asked
        own = fetch.border_GP[:, rank + 1] - fetch.border_GP[:, rank]
        account.rows_remote += len(fetch.node_U) - int(own.sum())
        if record:
            account.rows_recorded += int(touched.is_mine_V.sum())

    def _all_blocks(self, block: Tensor) -> Floats:
        """Of all ranks."""
        num_ranks = self.exchange.num_ranks
        route = self.exchange.route([len(block)] * num_ranks)
        return self.exchange.forward(route, [block.to(self.device).repeat(num_ranks)])[0].cpu().numpy()


def _own_stream(device: torch.device) -> torch.cuda.Stream | None:
    """For whatever runs ahead of the consumer; None where there are no streams.

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
