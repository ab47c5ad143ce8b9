"""What the model is asked: links of B events, as plain tensors that name each node's row once.

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
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace

from torch import Tensor


def _axes(letters: str) -> dict[str, str]:
    """Metadata of a field: its axes. What is cut along B and S says so here."""
    return {"axes": letters}


@dataclass(frozen=True, kw_only=True)
class LinkBatch:
    """Links to score. Tensors may be expanded views: their strides do not matter."""

    ends_BS: Tensor = field(metadata=_axes("BS"))
    """Which of the U nodes; int64."""
    neighbors_BSM: Tensor = field(metadata=_axes("BSM"))
    """Which of the U nodes, oldest first."""
    neighbor_mask_BSM: Tensor = field(metadata=_axes("BSM"))
    """True where there is a neighbour. It may lie on the host when all else is on a GPU: what is computed is
    chosen by it, and to be told by a GPU the host would wait for all that was asked of it before."""
    elapsed_BSM: Tensor = field(metadata=_axes("BSM"))
    """Time from the interaction with the neighbour to the query, not negative; any floating dtype."""

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

    dropout_keys_B: Tensor | None = field(default=None, metadata=_axes("B"))
    """int64, one per event: what dropout draws by in training. Drawn from torch's generator if None."""

    def __len__(self) -> int:
        return len(self.ends_BS)

    def split_targets(self, targets: int) -> Iterator["LinkBatch"]:
        """The same events with at most `targets` of their destinations at a time, in order."""
        num_ends = self.ends_BS.shape[1]
        if num_ends - 1 <= targets:
            yield self
            return
        for start in range(1, num_ends, targets):
            ends = [0, *range(start, min(start + targets, num_ends))]
            cut = {name: tensor[:, ends] for name, tensor in self._tensors_along("BS")}
            yield replace(self, **cut)

    def __getitem__(self, events: slice) -> "LinkBatch":
        return replace(self, **{name: tensor[events] for name, tensor in self._tensors_along("B")})

    def _tensors_along(self, letters: str) -> Iterator[tuple[str, Tensor]]:
        """Those whose first axes are these."""
        for each in fields(self):
            tensor = getattr(self, each.name)
            if tensor is not None and each.metadata["axes"].startswith(letters):
                yield each.name, tensor
