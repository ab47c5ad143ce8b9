"""The propagation memory: plan → fetch → record, exact, with a cost that does not depend on the nodes.

    1. plan    which rows this rank's slice needs, who owns them, who sends messages for which rows
    2. fetch   ids to the owners (already in the plan), rows back
    3. record  messages from the rows just fetched, summed per receiver, sent to the owners, added

fetch(b) → record(b) → fetch(b+1) is the only order that matters; whoever consumes fetched rows is not in it.

Two ranks, nodes 0 1 | 2 3, a batch of two events (0,2) and (2,3), one scored by each rank:

    rank 0 fetches rows 0 2, sends its message of 2 to 0 (its own) and of 0 to 2 (rank 1's)
    rank 1 fetches rows 2 3, sends its messages to 2 and 3 (its own); it adds both messages for 2

Shape letters: U fetched nodes, R receivers, E messages, V touched nodes, L layers, k hops, D width.
"""

from dataclasses import dataclass
from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from tpnet_dist.errors import InputError
from tpnet_dist.memory.plan import BatchEvents, OutgoingMessages, Touched, check_nodes, nodes_sent_by_each
from tpnet_dist.memory.projection import ProjectionKind
from tpnet_dist.memory.rows import RowTable, StoredRows
from tpnet_dist.memory.walks import Walk
from tpnet_dist.ranks.blocks import Blocks
from tpnet_dist.ranks.exchange import Exchange, ExchangeRoute, LocalExchange


@dataclass(frozen=True)
class MemoryPlan:
    """All that a batch needs of the exchange; made without touching the memory."""

    nodes_U: Tensor
    """The distinct nodes whose rows this rank gets, sorted."""
    route: ExchangeRoute
    served: Tensor
    """Rows that ranks ask of this one, as local ids, asker after asker."""
    record: "RecordPlan | None"
    """None if the batch is only looked at."""


@dataclass(frozen=True)
class RecordPlan:
    """Who sends messages for which rows."""

    outgoing: OutgoingMessages
    route: ExchangeRoute
    local_V: Tensor
    """This rank's rows that the batch touches, as local ids."""
    clock_V: Tensor
    weight_V: Tensor | None
    """What the batch adds to their degrees, for walks that keep one."""
    receiver: Tensor
    """For each incoming message, which of `local_V` it is for."""


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
        return self.walk.read_factors(elapsed_N, stored.degree_U[position_N].double()).to(
            stored.rows_ULD.dtype
        )

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
        device: torch.device | str = "cpu",
    ) -> None:
        _check_width(num_nodes, width, projection)
        # config
        self.num_nodes, self.walk, self.width, self.seed = num_nodes, walk, width, seed
        self.device = torch.device(device)
        self._wire_dtype = exchange_dtype or dtype
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
        # progress
        self.epoch = 0
        self._planned_until = 0.0
        self._planned_until_at_snapshot = 0.0
        self.reset(0)

    def reset(self, epoch: int) -> None:
        """Forget every event; P is drawn anew for each epoch."""
        self.epoch = epoch
        self._planned_until = 0.0
        self.table.reset(seed=self.seed, epoch=epoch)

    def plan(self, events: BatchEvents, needed: Tensor | None = None, *, record: bool = True) -> MemoryPlan:
        """Stage 1. `needed`: further nodes whose rows this rank's slice wants, repetitions allowed."""
        events.check(self.num_nodes, self._planned_until)
        if needed is not None:
            check_nodes(needed, self.num_nodes, "needed")
        account = self.exchange.account
        with account.stage("plan"):
            mine = events.slice_of(self.exchange.rank, self.exchange.num_ranks)
            wanted = torch.cat([mine.src_B, mine.dst_B, *([] if needed is None else [needed])])
            nodes_U = torch.unique(wanted)
            route = self.exchange.route(self.blocks.counts_by_owner(nodes_U))
            served = self.exchange.forward(route, [nodes_U])[0] - self.first_node
            account.rows_wanted += len(wanted)
            account.rows_fetched += len(nodes_U)
            account.batches += 1
            recording = self._plan_record(events, mine, nodes_U) if record and len(events) else None
        if recording is not None:
            self._planned_until = float(events.time_B[-1])
        return MemoryPlan(nodes_U, route, served, recording)

    def fetch(self, plan: MemoryPlan) -> FetchedRows:
        """Stage 2: the planned rows, as they are now."""
        with self.exchange.account.stage("fetch"):
            columns = self.table.read(plan.served).columns()
            columns[0] = columns[0].to(self._wire_dtype)
            columns = self.exchange.back(plan.route, columns)
            columns[0] = columns[0].to(self.table.rows_NLD.dtype)
            return FetchedRows(plan.nodes_U, StoredRows(*columns), self.walk)

    def record(self, plan: MemoryPlan, fetched: FetchedRows) -> None:
        """Stage 3: add the batch's events. `fetched` is what `fetch` gave for this plan."""
        recording = plan.record
        if recording is None:
            return
        with self.exchange.account.stage("record"):
            messages_RkD = _sum_messages(recording.outgoing, fetched).to(self._wire_dtype)
            [incoming] = self.exchange.forward(recording.route, [messages_RkD])
            self.exchange.account.rows_recorded += len(messages_RkD)
            incoming = incoming.to(self.table.rows_NLD.dtype)
            if self.exchange.num_ranks > 1:
                incoming = _sum_by_receiver(incoming, recording.receiver, len(recording.local_V))
            self.table.add(recording.local_V, recording.clock_V, incoming, recording.weight_V)

    def snapshot(self) -> None:
        """Mark this moment for `restore`; later events cost the rows they touch, not a copy of all."""
        self._planned_until_at_snapshot = self._planned_until
        self.table.snapshot()

    def restore(self) -> None:
        """Back to the snapshot, which stays in force until `forget_snapshot`."""
        self._planned_until = self._planned_until_at_snapshot
        self.table.restore()

    def forget_snapshot(self) -> None:
        self.table.forget_snapshot()

    def state_dict(self) -> dict[str, Tensor]:
        """This rank's block; rows follow one another in the order of ranks."""
        progress = torch.tensor([self.epoch, self._planned_until], dtype=torch.float64)
        return {**self.table.tensors(), "progress": progress}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.table.load(state)
        epoch, self._planned_until = state["progress"].tolist()
        self.epoch = int(epoch)

    def _plan_record(self, events: BatchEvents, mine: BatchEvents, nodes_U: Tensor) -> RecordPlan:
        touched = Touched.by(events)
        own = touched.within(self.first_node, self.stop_node)
        outgoing = OutgoingMessages.of(mine, touched, nodes_U, self.walk.hops)
        recv_counts, senders_nodes = nodes_sent_by_each(events, self.blocks, self.exchange.rank)
        return RecordPlan(
            outgoing=outgoing,
            route=ExchangeRoute(self.blocks.counts_by_owner(outgoing.nodes_R), recv_counts),
            local_V=own.nodes_V - self.first_node,
            clock_V=own.clock_V,
            weight_V=self.degree_weights(events, own),
            receiver=torch.searchsorted(own.nodes_V, senders_nodes),
        )

    def degree_weights(self, events: BatchEvents, own: Touched) -> Tensor | None:
        """Sum of the events' weights at each of this rank's touched nodes, on its new clock."""
        if not self.walk.keeps_degree:
            return None
        to_E, _, time_E = events.messages()
        mine_E = torch.isin(to_E, own.nodes_V)
        place_E = torch.searchsorted(own.nodes_V, to_E[mine_E])
        weight_E = self.walk.event_weight(own.clock_V[place_E] - time_E[mine_E])
        return torch.zeros_like(own.clock_V).index_add_(0, place_E, weight_E)


def _sum_messages(outgoing: OutgoingMessages, fetched: FetchedRows) -> Tensor:
    """Per receiver and layer, the weighted sum of the senders' next lower layers: (R, k, D)."""
    walk, table = fetched.walk, fetched.stored.rows_ULD.view(-1, fetched.stored.rows_ULD.shape[-1])
    factors_EL = fetched.read_factors(outgoing.sender_E, outgoing.clock_E)
    event_E = walk.event_weight(outgoing.age_E).to(factors_EL.dtype)
    weights = torch.empty_like(outgoing.table_index, dtype=factors_EL.dtype)
    weights[outgoing.slot_Ek] = factors_EL[:, :-1] * event_E[:, None]
    sums = F.embedding_bag(
        outgoing.table_index, table, outgoing.bag_starts, mode="sum", per_sample_weights=weights
    )
    return sums.view(len(outgoing.nodes_R), walk.hops, table.shape[1])


def _sum_by_receiver(incoming: Tensor, receiver: Tensor, num_receivers: int) -> Tensor:
    summed = incoming.new_zeros(num_receivers, *incoming.shape[1:])
    return summed.index_add_(0, receiver, incoming)


def _check_width(num_nodes: int, width: int, projection: ProjectionKind) -> None:
    if projection not in get_args(ProjectionKind):
        raise InputError(
            f"projection {projection!r} is unknown; choose {' or '.join(get_args(ProjectionKind))}"
        )
    if width < 1:
        raise InputError(f"width is {width}, but rows have at least 1 column; raise it")
    if projection == "identity" and width != num_nodes:
        raise InputError(
            f"width is {width}, but the identity projection of {num_nodes} nodes needs that many; change it"
        )
