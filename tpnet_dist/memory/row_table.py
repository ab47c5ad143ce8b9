"""The rows of a block of nodes, each on its own clock. Ids here are local: 0 is the block's first node."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tpnet_dist.distributed.host_memory import ask_for_huge_pages
from tpnet_dist.memory.event_run import Integers
from tpnet_dist.memory.kernels import Clocks
from tpnet_dist.memory.projection import ProjectionKind, fill_projection
from tpnet_dist.memory.walks import Walk


@dataclass
class UndoLog:
    """What rows were before they were first changed since a snapshot."""

    is_saved_N: npt.NDArray[np.bool_]
    entries: list[tuple[Tensor, Tensor, list[Tensor]]] = field(default_factory=list)
    """Local ids, rows, clocks with degrees; on the host, since a GPU may have no room for a second copy of
    what a part touches."""


class RowTable:
    """One contiguous row per node: a read is one gather."""

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
        self.projection: ProjectionKind = projection
        rows_NLD = torch.empty(num_nodes, walk.layers, width, dtype=dtype, device=device)
        self.rows_NLD = ask_for_huge_pages(rows_NLD)
        self.clocks = Clocks.zeros(num_nodes, with_degree=walk.keeps_degree, device=device)
        """Clocks of these rows, and of borrowed ones after them."""
        self.is_drawn = True
        """Whether layer 0 is P as it was drawn."""
        self._undo: UndoLog | None = None

    def reset(self, *, seed: int, epoch: int) -> None:
        """Forget every event and draw P anew."""
        self.rows_NLD[:, 1:] = 0
        fill_projection(
            self.rows_NLD[:, 0], kind=self.projection, first_node=self.first_node, seed=seed, epoch=epoch
        )
        for column in self.clocks.columns():
            column.zero_()
        self._undo, self.is_drawn = None, True

    def start_from(self, features_UD: Tensor, local_U: Tensor) -> None:
        """Take these random features of some rows instead of those drawn; before any event is recorded."""
        self.rows_NLD[local_U, 0] = features_UD.to(self.rows_NLD)
        self._undo, self.is_drawn = None, False

    def own_clocks(self) -> list[Tensor]:
        """Return the clocks of these rows, and degrees if the walk has them; not copies."""
        return [column[: self.num_nodes] for column in self.clocks.columns()]

    def snapshot(self) -> None:
        """Remember from now on what each row was, so that `restore` can bring this moment back.

        Costs what is recorded in between, not a copy of the table.
        """
        self._undo = UndoLog(np.zeros(self.num_nodes, np.bool_))

    def restore(self) -> None:
        """Go back to the moment of the snapshot, which stays in force."""
        assert self._undo is not None, "restore needs a snapshot"
        device = self.rows_NLD.device
        for on_host_U, saved_ULD, clocks in self._undo.entries:
            here_U = on_host_U.to(device)
            self.rows_NLD.index_copy_(0, here_U, saved_ULD.to(device))
            for column, saved_U in zip(self.clocks.columns(), clocks, strict=True):
                column.index_copy_(0, here_U, saved_U.to(device))
        self.snapshot()

    def forget_snapshot(self) -> None:
        self._undo = None

    def will_change(self, local: Integers) -> None:
        """Remember these rows, if there is a snapshot; repetitions are allowed."""
        if self._undo is None:
            return
        local_U = np.unique(local[~self._undo.is_saved_N[local]])
        self._undo.is_saved_N[local_U] = True
        on_host_U = torch.from_numpy(local_U)
        here_U = on_host_U.to(self.rows_NLD.device)
        rows_ULD, *clocks = (column[here_U].cpu() for column in (self.rows_NLD, *self.clocks.columns()))
        self._undo.entries.append((on_host_U, rows_ULD, clocks))
