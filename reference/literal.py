"""The published propagation algorithms, dense passes included: for parity, and as the competitor.

- `decay`: Node Representation Maintaining, and its batch form. Stored decayed to the last recorded time, as
  the released code does: each batch multiplies the *whole* table, layer l by exp(−λ l Δt), then adds the
  messages.
- `count`: Propagation Mechanism for DyGFormer (also PINT and NAT).
- `transition`: Propagation Mechanism for CAWN. Rows are kept normalised; each batch multiplies the decayed
  degrees d of *all* nodes. The paper prints it for one event; a batch sums the independent contributions of
  its events, as the batch form of `decay` does: H_u ← (d_u H_u + Σ w H_v) / (d_u + Σ w).

Messages always come from the state before the batch. A self-loop contributes twice, also to d. The two
`printed_` functions are the paper's pseudocode line by line, where it differs from the above.
"""

import math

import torch
from torch import Tensor

WALKS = ("decay", "count", "transition")


class LiteralMemory:
    """Rows of all nodes, layer by layer; `time` is that of the last recorded event."""

    def __init__(
        self, num_nodes: int, width: int, hops: int, decay: float, walk: str, projection_ND: Tensor
    ) -> None:
        if walk not in WALKS:
            raise ValueError(f"walk {walk!r} is unknown; choose one of {', '.join(WALKS)}")
        assert projection_ND.shape == (num_nodes, width), f"projection has shape {tuple(projection_ND.shape)}"
        self.hops = hops
        self.decay = decay
        self.walk = walk
        self.layers_ND = [projection_ND.clone(), *(torch.zeros_like(projection_ND) for _ in range(hops))]
        self.degree_N = torch.zeros(num_nodes, dtype=torch.float64, device=projection_ND.device)
        self.time: float | None = None

    def record(self, src_B: Tensor, dst_B: Tensor, time_B: Tensor) -> None:
        """Add one batch of events, in order of time, all of which see the state before it."""
        time_B = time_B.double()
        before = float(time_B[0]) if self.time is None else self.time
        end = float(time_B[-1])
        assert end >= before, f"recorded at {end}, before the last event at {before}"
        if self.walk == "decay":
            self._decay_all_rows(end - before)
            self._add_messages(src_B, dst_B, torch.exp(-self.decay * (end - time_B)))
        elif self.walk == "count":
            self._add_messages(src_B, dst_B, torch.ones_like(time_B))
        else:
            self._mix_messages(src_B, dst_B, time_B, before)
        self.time = end

    def rows_at(self, time: float) -> Tensor:
        """Rows (N, L, D) as read at `time`, which is not before the last recorded event."""
        gap = 0.0 if self.time is None else time - self.time
        assert gap >= 0, f"read at {time}, before the last event at {self.time}"
        rows_NLD = torch.stack(self.layers_ND, dim=1)
        if self.walk == "decay":
            for layer in range(1, self.hops + 1):
                rows_NLD[:, layer] *= math.exp(-self.decay * layer * gap)
        return rows_NLD

    def _decay_all_rows(self, gap: float) -> None:
        for layer in range(1, self.hops + 1):
            self.layers_ND[layer] *= math.exp(-self.decay * layer * gap)

    def _add_messages(self, src_B: Tensor, dst_B: Tensor, weight_B: Tensor) -> None:
        weight_B1 = weight_B.to(self.layers_ND[0].dtype)[:, None]
        for layer in range(self.hops, 0, -1):
            below_ND = self.layers_ND[layer - 1]
            self.layers_ND[layer].index_add_(0, src_B, below_ND[dst_B] * weight_B1)
            self.layers_ND[layer].index_add_(0, dst_B, below_ND[src_B] * weight_B1)

    def _mix_messages(self, src_B: Tensor, dst_B: Tensor, time_B: Tensor, before: float) -> None:
        node_E, other_E, time_E = torch.cat([src_B, dst_B]), torch.cat([dst_B, src_B]), time_B.repeat(2)
        touched_N = torch.zeros_like(self.degree_N, dtype=torch.bool).index_fill_(0, node_E, True)

        # Each node mixes on the clock of its own last event, where some weight is 1: the clock cancels in the
        # mixture, while on a common one a node silent for a long while would divide 0 by 0.
        clock_N = torch.full_like(self.degree_N, before).scatter_reduce(0, node_E, time_E, "amax")
        carried_N = self.degree_N * torch.exp(-self.decay * (clock_N - before))
        weight_E = torch.exp(-self.decay * (clock_N[node_E] - time_E))
        total_N = carried_N.index_add(0, node_E, weight_E)

        dtype = self.layers_ND[0].dtype
        keep_U1 = (carried_N / total_N)[touched_N, None].to(dtype)
        share_E1 = (weight_E / total_N[node_E])[:, None].to(dtype)
        for layer in range(self.hops, 0, -1):
            self.layers_ND[layer][touched_N] *= keep_U1
            self.layers_ND[layer].index_add_(0, node_E, self.layers_ND[layer - 1][other_E] * share_E1)
        self.degree_N = total_N * torch.exp(-self.decay * (float(time_B[-1]) - clock_N))


class LiteralTimescales:
    """Rows that fade at several rates: a `decay` memory for each, all with the same projection."""

    def __init__(
        self, num_nodes: int, width: int, hops: int, decays: tuple[float, ...], projection_ND: Tensor
    ) -> None:
        self.hops = hops
        self.memories = [
            LiteralMemory(num_nodes, width, hops, decay, "decay", projection_ND) for decay in decays
        ]

    def record(self, src_B: Tensor, dst_B: Tensor, time_B: Tensor) -> None:
        for memory in self.memories:
            memory.record(src_B, dst_B, time_B)

    def rows_at(self, time: float) -> Tensor:
        """Rows (N, L, D): layer 0, then for each hop a layer of each rate."""
        each_NLD = [memory.rows_at(time) for memory in self.memories]
        layers = [rows_NLD[:, hop] for hop in range(1, self.hops + 1) for rows_NLD in each_NLD]
        return torch.stack([each_NLD[0][:, 0], *layers], dim=1)


def record_one_by_one(memory: LiteralMemory, src_B: Tensor, dst_B: Tensor, time_B: Tensor) -> None:
    """The paper's order: every event sees all events before it in the stream."""
    for position in range(len(time_B)):
        here = slice(position, position + 1)
        memory.record(src_B[here], dst_B[here], time_B[here])


def printed_decay_rows(
    events: list[tuple[int, int, float]], projection_ND: Tensor, hops: int, decay: float
) -> list[Tensor]:
    """Node Representation Maintaining: e^(λ t) on adding, e^(−λ l t) on reading; overflows at Unix times."""
    layers_ND = [projection_ND.clone(), *(torch.zeros_like(projection_ND) for _ in range(hops))]
    for u, v, time in events:
        for layer in range(hops, 0, -1):
            layers_ND[layer][u] += math.exp(decay * time) * layers_ND[layer - 1][v]
            layers_ND[layer][v] += math.exp(decay * time) * layers_ND[layer - 1][u]
    last = events[-1][2] if events else 0.0
    return [math.exp(-decay * layer * last) * rows_ND for layer, rows_ND in enumerate(layers_ND)]


def printed_transition_rows(
    events: list[tuple[int, int, float]], projection_ND: Tensor, hops: int, decay: float
) -> list[Tensor]:
    """Propagation Mechanism for CAWN; a self-loop runs the two inner lines in turn on one row."""
    layers_ND = [projection_ND.clone(), *(torch.zeros_like(projection_ND) for _ in range(hops))]
    degree_N = projection_ND.new_zeros(len(projection_ND))
    previous = 0.0
    for u, v, time in events:
        degree_N *= math.exp(-decay * (time - previous))
        for layer in range(hops, 0, -1):
            rows_ND, below_ND = layers_ND[layer], layers_ND[layer - 1]
            rows_ND[u] = degree_N[u] / (degree_N[u] + 1) * rows_ND[u] + 1 / (degree_N[u] + 1) * below_ND[v]
            rows_ND[v] = degree_N[v] / (degree_N[v] + 1) * rows_ND[v] + 1 / (degree_N[v] + 1) * below_ND[u]
        degree_N[u] += 1
        degree_N[v] += 1
        previous = time
    return layers_ND
