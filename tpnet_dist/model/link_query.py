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

Shape letters: B events, S ends of an event, M neighbours of an end, U distinct nodes, L layers (hops + 1),
D width of rows, F node features, E edge features.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class LinkQuery:
    """Links to score. Tensors may be expanded views: their strides do not matter."""

    ends_BS: Tensor
    """Which of the U nodes; int64."""
    neighbors_BSM: Tensor
    """Likewise, oldest first."""
    neighbor_mask_BSM: Tensor
    """True where there is a neighbour. It may lie on the host when all else is on a GPU: what is computed is
    chosen by it, and to be told by a GPU the host would wait for all that was asked of it before."""
    elapsed_BSM: Tensor
    """Time from the interaction with the neighbour to the query, not negative; any floating dtype."""

    rows_ULD: Tensor | None = None
    """Rows as stored; None for a model without memory, like the next three."""
    products_ULL: Tensor | None = None
    """Inner products of each row with itself, as stored."""
    end_factors_BSL: Tensor | None = None
    neighbor_factors_BSML: Tensor | None = None

    node_features_UF: Tensor | None = None
    edge_features_BSME: Tensor | None = None
    """Features of the interactions with the neighbours."""

    dropout_keys_B: Tensor | None = None
    """int64, one per event: what dropout draws by in training. Drawn from torch's generator if None."""

    def __len__(self) -> int:
        return len(self.ends_BS)

    def split_targets(self, targets: int) -> Iterator["LinkQuery"]:
        """The same events with at most `targets` of their destinations at a time, in order."""
        num_ends = self.ends_BS.shape[1]
        if num_ends - 1 <= targets:
            yield self
            return
        for start in range(1, num_ends, targets):
            ends = [0, *range(start, min(start + targets, num_ends))]
            cut = {name: value[:, ends] for name, value in vars(self).items() if _is_per(name, value, "BS")}
            yield replace(self, **cut)

    def __getitem__(self, events: slice) -> "LinkQuery":
        cut = {name: value[events] for name, value in vars(self).items() if _is_per(name, value, "B")}
        return replace(self, **cut)


def _is_per(name: str, value: Tensor | None, letters: str) -> bool:
    """Whether the value's first axes are these."""
    return value is not None and name.rpartition("_")[2].startswith(letters)
