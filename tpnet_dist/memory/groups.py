"""Record a group of equal times that is larger than a batch, all at once.

Every event of the group must see the memory before the group, but the group may have too many rows to hold.
So layers are finished one by one from the top: layer l takes messages from layer l−1, which no event of the
group has touched yet. No copy of the table is needed; each piece fetches one layer at a time.

Shape letters: U fetched nodes, W sums, A own rows of one portion, Y sums of shared ones, D width.
"""

from collections.abc import Sequence

import torch

from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.memory_plan import MemoryPlan
from tpnet_dist.memory.plan import BatchEvents
from tpnet_dist.memory.touched import Touched


def record_group(memory: Memory, pieces: Sequence[BatchEvents]) -> None:
    """Add the events of all pieces as one batch. Every rank must call it with the same pieces."""
    memory.assert_all_recorded()
    pieces = [piece for piece in pieces if len(piece)]
    if not pieces:
        return
    group = memory.check(pieces).as_one_batch()
    assert (group.time_N == group.time_N[0]).all(), "a group has one time"
    touched, clocks = Touched.by(group, memory.blocks, memory.portions), memory.clocks
    node_V = touched.node_V[touched.own_V]
    local_V = torch.from_numpy(node_V - memory.first_node).to(memory.device)
    carry_kV = memory.walk.carry_weights(touched.clock_V[touched.own_V] - clocks.clock_N[node_V])
    plans = memory.plan_run(pieces, at_once=True)
    clocks.move(touched, slice(None), clocks.weights_of(touched))
    for layer in range(memory.walk.hops, 0, -1):
        memory.table.scale_layer(local_V, torch.from_numpy(carry_kV[layer - 1]).to(memory.device), layer)
        for plan in plans:
            _add_messages(memory, plan, layer)
    for plan in plans:
        memory.take_turn(plan)


def _add_messages(memory: Memory, plan: MemoryPlan, layer: int) -> None:
    """Fetch layer l−1 of a piece's nodes, send the sums to the owners, add them to layer l."""
    recording = plan.record
    assert recording is not None, "no piece is empty"
    [rows_UD] = memory.exchange.back(plan.route, [memory.table.rows_NLD[plan.served, layer - 1]])
    sums_WD = recording.sums.of_messages(rows_UD, layer)
    incoming_YD = memory.exchange.deliver(recording.delivery, sums_WD, rows_UD.dtype)
    alone_AD, own_YD = recording.kept(sums_WD)
    shared_YD = torch.cat([own_YD, incoming_YD])
    memory.table.add_to_layer(recording.local_A, alone_AD, layer)
    memory.table.add_to_layer(recording.local_S, recording.shared.of_messages(shared_YD, layer), layer)
