"""The rows of a block of nodes, each on its own clock. Ids here are local: 0 is the block's first node.

Shape letters: N nodes of the block, U chosen ones, L layers, k hops, D width.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tpnet_dist.memory.projection import ProjectionKind, fill_projection
from tpnet_dist.memory.walks import Walk
from tpnet_dist.ranks.host_memory import ask_for_huge_pages


@dataclass(frozen=True)
class StoredRows:
    """Some rows as stored, with what is needed to read them."""

    rows_ULD: Tensor
    clock_U: Tensor
    """Seconds; float64."""
    degree_U: Tensor | None
    """Sum of event weights on the row's clock, for walks that divide by it; float64."""
    products_ULL: Tensor | None
    """Inner products among the stored layers of the row itself, if they were asked for."""

    def columns(self) -> list[Tensor]:
        everything = (self.rows_ULD, self.clock_U, self.degree_U, self.products_ULL)
        return [column for column in everything if column is not None]


@dataclass
class UndoLog:
    """What rows were before they were first changed since a snapshot."""

    is_saved_N: Tensor
    entries: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    """On the host: a GPU may have no room for a second copy of what a part touches."""


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
        rows_NLD = torch.empty(num_nodes, walk.layers, width, dtype=dtype, device=device)
        self.rows_NLD = ask_for_huge_pages(rows_NLD).zero_()
        # copying goes number by number: half as many, twice as wide, take less time
        self._copied_as = torch.float64 if dtype == torch.float32 and width % 2 == 0 else dtype
        self._upper = self.rows_NLD.flatten(1)[:, width:].view(self._copied_as)
        self._products_NLL: Tensor | None = None
        self._stale_N = torch.ones(num_nodes, dtype=torch.bool, device=device)
        self._undo: UndoLog | None = None

    def reset(self, *, seed: int, epoch: int) -> None:
        """Forget every event and draw P anew."""
        self.rows_NLD[:, 1:] = 0
        fill_projection(
            self.rows_NLD[:, 0], kind=self._projection, first_node=self.first_node, seed=seed, epoch=epoch
        )
        self._forget_the_past()

    def start_from(self, features_UD: Tensor, local_U: Tensor) -> None:
        """Take these random features of some rows instead of those drawn; before any event is recorded."""
        self.rows_NLD[local_U, 0] = features_UD.to(self.rows_NLD)
        self._forget_the_past()

    def read(self, local_U: Tensor, *, products: bool) -> list[Tensor]:
        """Rows (U, L, D), and their self-products (U, L, L) if asked for."""
        rows_ULD = self.rows_NLD.index_select(0, local_U)
        return [rows_ULD, self._products_of(local_U, rows_ULD)] if products else [rows_ULD]

    def write(self, local_U: Tensor, upper_UkD: Tensor) -> None:
        """Replace layers 1 … k of distinct rows."""
        self._will_change(local_U)
        self._upper.index_copy_(0, local_U, upper_UkD.flatten(1).view(self._copied_as))

    def scale_layer(self, local_U: Tensor, factor_U: Tensor, layer: int) -> None:
        """Multiply one layer of distinct rows."""
        self._will_change(local_U)
        self.rows_NLD[local_U, layer] *= factor_U[:, None].to(self.rows_NLD.dtype)

    def add_to_layer(self, local_U: Tensor, sums_UD: Tensor, layer: int) -> None:
        """To one layer of distinct rows."""
        self._will_change(local_U)
        self.rows_NLD[:, layer].index_add_(0, local_U, sums_UD)

    def snapshot(self) -> None:
        """From now on remember what each row was, so that `restore` can bring this moment back.

        Costs what is recorded in between, not a copy of the table.
        """
        self._undo = UndoLog(torch.zeros_like(self._stale_N))

    def restore(self) -> None:
        """Back to the moment of the snapshot, which stays in force."""
        assert self._undo is not None, "restore needs a snapshot"
        device = self.rows_NLD.device
        for local_U, saved_ULD in self._undo.entries:
            local_U = local_U.to(device)
            self.rows_NLD.index_copy_(0, local_U, saved_ULD.to(device))
            self._stale_N[local_U] = True
        self.snapshot()

    def forget_snapshot(self) -> None:
        self._undo = None

    def load(self, rows_NLD: Tensor) -> None:
        self.rows_NLD.copy_(rows_NLD)
        self._forget_the_past()

    def _forget_the_past(self) -> None:
        self._stale_N.fill_(True)
        self._undo = None

    def _will_change(self, local_U: Tensor) -> None:
        # where nobody ever asked for products, none are cached
        if self._products_NLL is not None:
            self._stale_N.index_fill_(0, local_U, True)
        if self._undo is not None:
            first_U = local_U[~self._undo.is_saved_N[local_U]]
            self._undo.is_saved_N[first_U] = True
            self._undo.entries.append((first_U.cpu(), self.rows_NLD[first_U].cpu()))

    def _products_of(self, local_U: Tensor, rows_ULD: Tensor) -> Tensor:
        """A row's products change only with the row: refresh the stale ones, keep the others."""
        if rows_ULD.device.type != "cpu":
            # to find the stale ones the host would wait for the device, for longer than all of them take
            return torch.bmm(rows_ULD, rows_ULD.transpose(1, 2))
        if self._products_NLL is None:
            layers = self.walk.layers
            # whoever asks first may be scoring: what is made in inference mode cannot be changed outside it
            with torch.inference_mode(False):
                self._products_NLL = self.rows_NLD.new_zeros(self.num_nodes, layers, layers)
        stale = self._stale_N[local_U].nonzero().squeeze(1)
        fresh_ULD = rows_ULD[stale]
        self._products_NLL[local_U[stale]] = torch.bmm(fresh_ULD, fresh_ULD.transpose(1, 2))
        self._stale_N[local_U[stale]] = False
        return self._products_NLL[local_U]
