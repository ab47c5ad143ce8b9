"""Record a group of equal times that is larger than a batch, all at once.

Every event of the group must see the memory before the group, but the group may have too many rows to hold.
So layers are finished one by one from the top: layer l takes messages from layer l−1, which no event of the
group has touched yet. No copy of the table is needed; each piece fetches one layer at a time.

Shape letters: U fetched nodes, R receivers, E messages, V touched nodes, D width.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from tpnet_dist.memory.memory import Memory, MemoryPlan
from tpnet_dist.memory.plan import BatchEvents, Touched


def record_group(memory: Memory, pieces: Sequence[BatchEvents]) -> None:
    """Add the events of all pieces as one batch. Every rank must call it with the same pieces."""
    plans = [memory.plan(piece) for piece in pieces]
    whole = BatchEvents(
        torch.cat([piece.src_B for piece in pieces]),
        torch.cat([piece.dst_B for piece in pieces]),
        torch.cat([piece.time_B for piece in pieces]),
    )
    assert (whole.time_B == whole.time_B[0]).all(), "a group has one time"
    own = Touched.by(whole).within(memory.first_node, memory.stop_node)
    local_V = own.nodes_V - memory.first_node
    for layer in range(memory.walk.hops, 0, -1):
        memory.table.carry_layer(local_V, own.clock_V, layer)
        for plan in plans:
            _add_messages(memory, plan, layer)
    memory.table.set_clock(local_V, own.clock_V, memory.degree_weights(whole, own))


def _add_messages(memory: Memory, plan: MemoryPlan, layer: int) -> None:
    """Fetch layer l−1 of a piece's nodes, send the sums to the owners, add them to layer l."""
    assert plan.record is not None
    outgoing, exchange = plan.record.outgoing, memory.exchange
    rows_UD, clock_U, degree_U = exchange.back(plan.route, memory.table.read_layer(plan.served, layer - 1))
    elapsed_E = outgoing.clock_E - clock_U[outgoing.sender_E]
    factors_EL = memory.walk.read_factors(elapsed_E, degree_U[outgoing.sender_E].double())
    weight_E = factors_EL[:, layer - 1] * memory.walk.event_weight(outgoing.age_E)
    sums_RD = F.embedding_bag(
        outgoing.sender_E,
        rows_UD,
        _bag_starts(outgoing.count_R),
        mode="sum",
        per_sample_weights=weight_E.to(rows_UD.dtype),
    )
    [incoming] = exchange.forward(plan.record.route, [sums_RD])
    receivers = plan.record.local_V[plan.record.receiver]
    memory.table.rows_NLD[:, layer].index_add_(0, receivers, incoming)


def _bag_starts(count_R: Tensor) -> Tensor:
    return count_R.cumsum(0) - count_R
