"""Rows as they were before a batch, and how they are read at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tpnet_dist.memory.walks import Walk


@dataclass(frozen=True)
class FetchedRows:
    """Holds copies of stored rows of distinct nodes, with what is needed to read them."""

    nodes_U: Tensor
    rows_ULD: Tensor
    clock_U: Tensor
    """The time of each row's last event in seconds; float64."""
    degree_U: Tensor | None
    """Sum of event weights on the row's clock, for walks that divide by it; float64."""
    products_ULL: Tensor | None
    """Inner products among the stored layers of the row itself, if they were asked for."""
    walk: Walk

    def tensors(self) -> list[Tensor]:
        """What of it goes to a device, where rows lie on the host."""
        everything = (self.nodes_U, self.rows_ULD, self.clock_U, self.degree_U, self.products_ULL)
        return [tensor for tensor in everything if tensor is not None]

    def at(self, tensors: Sequence[Tensor]) -> "FetchedRows":
        """The same with its tensors elsewhere."""
        there = iter(tensors)
        nodes_U, rows_ULD, clock_U = next(there), next(there), next(there)
        degree_U = None if self.degree_U is None else next(there)
        products_ULL = None if self.products_ULL is None else next(there)
        return FetchedRows(nodes_U, rows_ULD, clock_U, degree_U, products_ULL, self.walk)

    def position_of(self, nodes: Tensor) -> Tensor:
        """Return where the rows of `nodes` lie, which must be among the fetched ones."""
        return torch.searchsorted(self.nodes_U, nodes)

    def read_factors(self, position_A: Tensor, time_A: Tensor) -> Tensor:
        """Return what stored layers are multiplied by to read them at `time`; products take the factors of
        both."""
        elapsed_A = time_A - self.clock_U[position_A]
        degree_A = None if self.degree_U is None else self.degree_U[position_A]
        return self.walk.read_factors(elapsed_A, degree_A).to(self.rows_ULD.dtype)

    def read(self, nodes_A: Tensor, time_A: Tensor) -> Tensor:
        """Return the projections of the nodes' walk matrices at `time`: (A, L, D)."""
        position_A = self.position_of(nodes_A)
        return self.rows_ULD[position_A] * self.read_factors(position_A, time_A)[:, :, None]
