"""Training and scoring as the published code goes about it, step by step: for parity, and as the competitor.

Nothing is reduced: neighbours are looked up node by node in Python, features that do not exist are tables of
zeros, positive and negative links are scored apart, rows are gathered for each pair anew, and recording a
batch decays the whole table. Rows are read as last recorded; node N, whose rows nothing changes, stands in
empty neighbour slots, at time 0.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from reference.literal import LiteralMemory
from reference.literal_model import LiteralLinks, LiteralSizes, LiteralTPNet

Ids = npt.NDArray[np.int64]
Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LiteralEvents:
    """Consecutive events; times in seconds, as they are in the log."""

    src_B: Ids
    dst_B: Ids
    time_B: Times

    def __len__(self) -> int:
        return len(self.src_B)

    def __getitem__(self, rows: slice) -> "LiteralEvents":
        return LiteralEvents(self.src_B[rows], self.dst_B[rows], self.time_B[rows])


class LiteralNeighbors:
    """The interactions of each node, oldest first; a search and three copies for every node asked about."""

    def __init__(self, num_nodes: int, events: LiteralEvents) -> None:
        self._padding = num_nodes
        node = np.concatenate([events.src_B, events.dst_B])
        other = np.concatenate([events.dst_B, events.src_B])
        event = np.tile(np.arange(len(events)), 2)
        order = np.lexsort((event, node))
        borders = np.searchsorted(node[order], np.arange(1, num_nodes))
        self._others, self._events, self._times = (
            np.split(column[order], borders) for column in (other, event, np.tile(events.time_B, 2))
        )

    def recent(self, nodes_X: Ids, times_X: Times, count: int) -> tuple[Ids, Ids, Times]:
        """Ids, event numbers and times of the last `count` interactions strictly before each time."""
        ids_XM = np.full((len(nodes_X), count), self._padding)
        events_XM = np.full((len(nodes_X), count), -1)
        times_XM = np.zeros((len(nodes_X), count))
        for row, (node, time) in enumerate(zip(nodes_X, times_X, strict=True)):
            stop = np.searchsorted(self._times[node], time)
            start = max(0, stop - count)
            if stop:
                ids_XM[row, count - (stop - start) :] = self._others[node][start:stop]
                events_XM[row, count - (stop - start) :] = self._events[node][start:stop]
                times_XM[row, count - (stop - start) :] = self._times[node][start:stop]
        return ids_XM, events_XM, times_XM


@dataclass(frozen=True)
class LinksById(LiteralLinks):
    """Links whose neighbours' rows are looked up for each pair anew, as the released code does."""

    ends_X2: Tensor
    neighbors_X2M: Tensor
    rows_of: Callable[[Tensor], Tensor]


class TPNetById(LiteralTPNet):
    """Gathers the rows of both nodes of every pair of a neighbour and an end."""

    def _neighbor_features(self, links: LiteralLinks) -> list[Tensor]:
        assert isinstance(links, LinksById)
        neighbors_X2M = links.neighbors_X2M
        ends = [links.ends_X2[:, end, None, None].expand_as(neighbors_X2M) for end in (0, 1)]
        first_LD, second_LD = (
            links.rows_of(neighbors_X2M.repeat(2, 1, 1, 1)),
            links.rows_of(torch.stack(ends)),
        )
        return [*self.pair_features(first_LD, second_LD).unbind(0)]


class LiteralTraining:
    """Model, memory and optimizer of the published code, for a log without features."""

    def __init__(
        self,
        num_nodes: int,
        num_events: int,
        sizes: LiteralSizes,
        *,
        projection_ND: Tensor,
        decay: float,
        dropout: float,
        learning_rate: float = 1e-4,
    ) -> None:
        """`projection_ND` has a row for the padding node too, the last."""
        # config
        self.num_neighbors, self._decay, self._projection_ND = sizes.neighbors, decay, projection_ND
        # parts
        self.model = TPNetById(sizes, dropout=dropout)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=learning_rate)
        self._node_features = torch.zeros(num_nodes + 1, sizes.node_width)
        # event -1, of empty slots, is the last row
        self._edge_features = torch.zeros(num_events + 1, sizes.edge_width)
        self.memory = self._empty_memory(sizes.hops)

    def forget(self) -> None:
        """Go back to before the first event."""
        self.memory = self._empty_memory(self.memory.hops)

    def learn(self, batch: LiteralEvents, negative_B: Ids, neighbors: LiteralNeighbors) -> float:
        """One optimizer step, and the batch recorded; returns the loss."""
        self.model.train()
        self.optimizer.zero_grad()
        positive, negative = self._score(batch, negative_B, neighbors)
        predicted = torch.cat([positive, negative]).sigmoid()
        labels = torch.cat([torch.ones_like(positive), torch.zeros_like(negative)])
        loss = F.binary_cross_entropy(predicted, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.record(batch)
        return loss.item()

    @torch.no_grad()
    def score(
        self, batch: LiteralEvents, negative_B: Ids, neighbors: LiteralNeighbors
    ) -> tuple[Tensor, Tensor]:
        """Logits of the events and of their negatives; the batch is recorded."""
        self.model.eval()
        logits = self._score(batch, negative_B, neighbors)
        self.record(batch)
        return logits

    def record(self, batch: LiteralEvents) -> None:
        self.memory.record(*(torch.from_numpy(column) for column in vars(batch).values()))

    def _score(
        self, batch: LiteralEvents, negative_B: Ids, neighbors: LiteralNeighbors
    ) -> tuple[Tensor, Tensor]:
        positive = self._links(batch.src_B, batch.dst_B, batch.time_B, neighbors)
        negative = self._links(batch.src_B, negative_B, batch.time_B, neighbors)
        return self.model(positive), self.model(negative)

    def _links(self, src_X: Ids, dst_X: Ids, time_X: Times, neighbors: LiteralNeighbors) -> LiteralLinks:
        ends_X2, times_X2 = np.stack([src_X, dst_X], 1), np.stack([time_X, time_X], 1)
        shape = (*ends_X2.shape, self.num_neighbors)
        found = neighbors.recent(ends_X2.reshape(-1), times_X2.reshape(-1), self.num_neighbors)
        ids, events, times = (torch.from_numpy(column.reshape(shape)) for column in found)
        return LinksById(
            rows_X2LD=self._rows(torch.from_numpy(ends_X2)),
            neighbor_rows_X2MLD=None,
            neighbor_mask_X2M=events >= 0,
            elapsed_X2M=(torch.from_numpy(times_X2)[..., None] - times).float(),
            node_features_X2MF=self._node_features[ids],
            edge_features_X2MF=self._edge_features[events],
            ends_X2=torch.from_numpy(ends_X2),
            neighbors_X2M=ids,
            rows_of=self._rows,
        )

    def _rows(self, nodes: Tensor) -> Tensor:
        return torch.stack([layer_ND[nodes] for layer_ND in self.memory.layers_ND], -2)

    def _empty_memory(self, hops: int) -> LiteralMemory:
        num_nodes, width = self._projection_ND.shape
        return LiteralMemory(num_nodes, width, hops, self._decay, "decay", self._projection_ND)
