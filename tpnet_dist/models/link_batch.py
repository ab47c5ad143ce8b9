"""The model's input: links of B events, as plain tensors that name each node's row once.

Every event has S ends: its source, then the C = S − 1 destinations to score against it (in training the true
one and a negative; in one-vs-many ranking the true one and K others). An end has M neighbour slots.

Rows and node features come once for each of the U distinct nodes; ends and neighbour slots hold positions
among these U. A stored row is read by multiplying its layer l by a slot's factor l, so one stored row serves
slots that read it at different times; inner products of two slots take the factors of both.

Empty neighbour slots come before the others and are False in `neighbor_mask_BSM`. Profile `paper` leaves them
out, whatever they hold (positions must exist). Profile `published` takes them for neighbours: there every
empty slot of an end must hold what the released code saw, that is the position of the padding node's row
(layer 0 drawn like any other's, the rest zero), as elapsed time the time of the query since the log's time 0,
and zeros for features.

Models of several hops get a table for each further one: its V rows are the distinct nodes that stand in slots
of the hop before, each at the time of the interaction that put it there, with M neighbours of its own. Row 0
stands for empty slots: it is nobody, at the log's time 0, and has only empty slots.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from torch import Tensor

from tpnet_dist.models.common.sent import ON_HOST


def _axes(letters: str, where: Mapping[str, bool] = MappingProxyType({})) -> dict[str, Any]:
    """Return the metadata of a field that names its axes, and says where it lies. What is cut along B and S
    says so here."""
    return {"axes": letters, **where}


@dataclass(frozen=True, kw_only=True)
class Hop:
    """Neighbours of what stands in the slots of the hop before."""

    nodes_V: Tensor
    """The place of each row's node among the U; any in row 0."""
    neighbors_VM: Tensor
    """The places of neighbours among the U nodes, oldest first; the row's own in empty slots."""
    mask_VM: Tensor = field(metadata=ON_HOST)
    """True where there is a neighbour; may lie on the host."""
    elapsed_VM: Tensor
    """Time from the interaction with the neighbour to the row's own time; since the log's time 0 in empty
    slots; float64."""
    edge_features_VMF: Tensor | None = None
    rows_VM: Tensor | None = field(default=None, metadata=ON_HOST)
    """The row of the next hop that each slot is; None in the last. On the host, like the mask."""
    dropout_keys_V: Tensor | None = None
    """int64, one per row: what dropout draws by in training."""


@dataclass(frozen=True, kw_only=True)
class LinkBatch:
    """Links to score. Tensors may be expanded views: their strides do not matter."""

    ends_BS: Tensor = field(metadata=_axes("BS"))
    """The places of ends among the U nodes; int64."""
    neighbors_BSM: Tensor = field(metadata=_axes("BSM"))
    """The places of neighbours among the U nodes, oldest first."""
    neighbor_mask_BSM: Tensor = field(metadata=_axes("BSM", ON_HOST))
    """True where there is a neighbour. It may lie on the host when all else is on a GPU: what is computed is
    chosen by it, and to be told by a GPU the host would wait for all that was asked of it before."""
    elapsed_BSM: Tensor = field(metadata=_axes("BSM"))
    """Time from the interaction with the neighbour to the query, not negative; float32, or float64 in a batch
    of several hops, whose times are added."""

    rows_ULD: Tensor | None = field(default=None, metadata=_axes("ULD"))
    """Rows as stored; None for a model without memory, like the next three."""
    products_ULL: Tensor | None = field(default=None, metadata=_axes("ULL"))
    """Inner products of each row with itself, as stored."""
    end_factors_BSL: Tensor | None = field(default=None, metadata=_axes("BSL"))
    neighbor_factors_BSML: Tensor | None = field(default=None, metadata=_axes("BSML"))

    node_features_UF: Tensor | None = field(default=None, metadata=_axes("UF"))
    edge_features_BSMF: Tensor | None = field(default=None, metadata=_axes("BSMF"))
    """Features of the interactions with the neighbours."""
    neighbor_means_BSF: Tensor | None = field(default=None, metadata=_axes("BSF"))
    """Mean node feature of further neighbours, for models that ask for it."""

    repeats_BSM: Tensor | None = field(default=None, metadata=_axes("BSM", ON_HOST))
    """Whether a slot holds what the slot before it does, as draws with replacement may; on the host, like the
    mask. None: none does."""
    hop_rows_BSM: Tensor | None = field(default=None, metadata=_axes("BSM", ON_HOST))
    """The row of `hops[0]` that each neighbour slot is; on the host, like the mask."""
    hops: tuple[Hop, ...] = field(default=(), metadata=_axes(""))
    """All hops but the first, for models that ask for several."""

    longest_BS: Tensor | None = field(default=None, metadata=_axes("BS", ON_HOST))
    """For models that ask: how long the longest history is, up to M, of the ends that stand in this place in
    the whole timestamp batch, on all ranks. On the host, like the mask."""
    own_elapsed_B: Tensor | None = field(default=None, metadata=_axes("B"))
    """What float32 takes from the time of the query, where times are rounded to it; None: nothing."""

    dropout_keys_B: Tensor | None = field(default=None, metadata=_axes("B"))
    """int64, one per event: what dropout draws by in training. Drawn from torch's generator if None."""
    dropout_states_BM: Tensor | None = field(default=None, metadata=_axes("BM"))
    """What an event's first draws by its key go on from, prepared for a device; None: a device makes them."""

    prepared: object | None = field(default=None, metadata=_axes(""))
    """The model's preparation of all these events, a dataclass of tensors that go to its device; None: the
    model makes it when it is asked."""

    def __len__(self) -> int:
        return len(self.ends_BS)

    def split_targets(self, targets: int) -> Iterator["LinkBatch"]:
        """Yield batches of the same events with at most `targets` of their destinations at a time, in
        order."""
        num_ends = self.ends_BS.shape[1]
        if num_ends - 1 <= targets:
            yield self
            return
        for start in range(0, num_ends - 1, targets):
            yield self.with_targets(range(start, min(start + targets, num_ends - 1)))

    def with_targets(self, targets: Sequence[int]) -> "LinkBatch":
        """The same events with these of their destinations."""
        ends = [0, *(1 + target for target in targets)]
        cut: dict[str, Any] = {name: tensor[:, ends] for name, tensor in self._tensors_along("BS")}
        return replace(self, **cut, prepared=None)

    def __getitem__(self, events: slice) -> "LinkBatch":
        if events.indices(len(self)) == (0, len(self), 1):
            return self
        cut: dict[str, Any] = {name: tensor[events] for name, tensor in self._tensors_along("B")}
        return replace(self, **cut, prepared=None)

    def _tensors_along(self, letters: str) -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors whose first axes are these, with their names."""
        for each in fields(self):
            tensor = getattr(self, each.name)
            if isinstance(tensor, Tensor) and each.metadata["axes"].startswith(letters):
                yield each.name, tensor
