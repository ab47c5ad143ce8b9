"""The rows of a block of nodes, each on its own clock. Ids here are local: 0 is the block's first node.

Shape letters: N nodes of the block, U chosen ones, L layers, D width.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tpnet_dist.memory.projection import ProjectionKind, fill_projection
from tpnet_dist.memory.walks import Walk


@dataclass(frozen=True)
class StoredRows:
    """Some rows as stored, with what is needed to read them."""

    rows_ULD: Tensor
    clock_U: Tensor
    """Seconds; float64."""
    degree_U: Tensor
    """Sum of event weights on the row's clock; kept for walks that divide by it."""
    products_ULL: Tensor
    """Inner products among the stored layers of the row itself."""

    def columns(self) -> list[Tensor]:
        return [self.rows_ULD, self.clock_U, self.degree_U, self.products_ULL]


@dataclass
class UndoLog:
    """What rows were before they were first changed since a snapshot."""

    is_saved_N: Tensor
    entries: list[tuple[Tensor, dict[str, Tensor]]] = field(default_factory=list)


class RowTable:
    """One contiguous row per node: a fetch is one gather."""

    def __init__(
        self,
        walk: Walk,
        width: int,
        *,
        first_node: int,
        num_nodes: int,
        projection: ProjectionKind,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.walk, self.first_node, self.num_nodes = walk, first_node, num_nodes
        self._projection: ProjectionKind = projection
        self.rows_NLD = torch.zeros(num_nodes, walk.layers, width, dtype=dtype, device=device)
        self.clock_N = torch.zeros(num_nodes, dtype=torch.float64, device=device)
        self.degree_N = torch.zeros(num_nodes if walk.keeps_degree else 0, dtype=dtype, device=device)
        self._products_NLL = torch.zeros(num_nodes, walk.layers, walk.layers, dtype=dtype, device=device)
        self._stale_N = torch.ones(num_nodes, dtype=torch.bool, device=device)
        self._undo: UndoLog | None = None

    def reset(self, *, seed: int, epoch: int) -> None:
        """Forget every event and draw P anew."""
        self.rows_NLD[:, 1:] = 0
        fill_projection(
            self.rows_NLD[:, 0], kind=self._projection, first_node=self.first_node, seed=seed, epoch=epoch
        )
        self.clock_N.zero_()
        self.degree_N.zero_()
        self._stale_N.fill_(True)
        self._undo = None

    def read(self, local_U: Tensor) -> StoredRows:
        rows_ULD = self.rows_NLD.index_select(0, local_U)
        return StoredRows(
            rows_ULD, self.clock_N[local_U], self.degree_of(local_U), self._products_of(local_U, rows_ULD)
        )

    def read_layer(self, local_U: Tensor, layer: int) -> list[Tensor]:
        """One layer with the clock and degree that reading it takes."""
        return [self.rows_NLD[local_U, layer], self.clock_N[local_U], self.degree_of(local_U)]

    def degree_of(self, local_U: Tensor) -> Tensor:
        if self.walk.keeps_degree:
            return self.degree_N[local_U]
        return torch.zeros(len(local_U), dtype=self.rows_NLD.dtype, device=local_U.device)

    def add(self, local_U: Tensor, clock_U: Tensor, messages_UkD: Tensor, weight_U: Tensor | None) -> None:
        """Move distinct rows to their new clocks and add what their events brought to layers 1 … k."""
        self._remember(local_U)
        rows_ULD = self.rows_NLD.index_select(0, local_U)
        if self.walk.forgets:
            carry_UL = self.walk.carry_factors(clock_U - self.clock_N[local_U]).to(rows_ULD.dtype)
            rows_ULD[:, 1:].mul_(carry_UL[:, 1:, None])
        rows_ULD[:, 1:].add_(messages_UkD)
        self.rows_NLD.index_copy_(0, local_U, rows_ULD)
        self.set_clock(local_U, clock_U, weight_U)

    def carry_layer(self, local_U: Tensor, clock_U: Tensor, layer: int) -> None:
        """Move one layer of distinct rows to new clocks; `set_clock` must follow when all layers are done."""
        self._remember(local_U)
        if self.walk.forgets:
            carry_UL = self.walk.carry_factors(clock_U - self.clock_N[local_U]).to(self.rows_NLD.dtype)
            self.rows_NLD[local_U, layer] *= carry_UL[:, layer, None]

    def set_clock(self, local_U: Tensor, clock_U: Tensor, weight_U: Tensor | None) -> None:
        """Set the clocks; where a degree is kept, bring it to them and add the events' weights."""
        if weight_U is not None:
            kept_U = self.walk.event_weight(clock_U - self.clock_N[local_U]) * self.degree_N[local_U]
            self.degree_N[local_U] = (kept_U + weight_U).to(self.degree_N.dtype)
        self.clock_N[local_U] = clock_U
        self._stale_N[local_U] = True

    def snapshot(self) -> None:
        """From now on remember what each row was, so that `restore` can bring this moment back.

        Costs what is recorded in between, not a copy of the table.
        """
        self._undo = UndoLog(torch.zeros_like(self._stale_N))

    def restore(self) -> None:
        """Back to the moment of the snapshot, which stays in force."""
        assert self._undo is not None, "restore needs a snapshot"
        for local_U, saved in self._undo.entries:
            for name, tensor in self.tensors().items():
                if len(tensor):
                    tensor.index_copy_(0, local_U, saved[name])
            self._stale_N[local_U] = True
        self.snapshot()

    def forget_snapshot(self) -> None:
        self._undo = None

    def _remember(self, local_U: Tensor) -> None:
        if self._undo is None:
            return
        first_U = local_U[~self._undo.is_saved_N[local_U]]
        self._undo.is_saved_N[first_U] = True
        saved = {name: tensor[first_U] for name, tensor in self.tensors().items() if len(tensor)}
        self._undo.entries.append((first_U, saved))

    def tensors(self) -> dict[str, Tensor]:
        """Everything that recording changes, by name."""
        return {"rows": self.rows_NLD, "clock": self.clock_N, "degree": self.degree_N}

    def load(self, tensors: dict[str, Tensor]) -> None:
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])
        self._stale_N.fill_(True)
        self._undo = None

    def _products_of(self, local_U: Tensor, rows_ULD: Tensor) -> Tensor:
        """A row's products change only with the row: refresh the stale ones, keep the others."""
        stale = self._stale_N[local_U].nonzero().squeeze(1)
        fresh_ULD = rows_ULD[stale]
        self._products_NLL[local_U[stale]] = torch.bmm(fresh_ULD, fresh_ULD.transpose(1, 2))
        self._stale_N[local_U[stale]] = False
        return self._products_NLL[local_U]
