"""Which directed edges some events hold, since when, and when last before any event of the log."""

from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from tpnet_dist.events.batch_plan import Positions
from tpnet_dist.events.view import EventView

NodeIds = npt.NDArray[np.int32]
EdgeKeys = npt.NDArray[np.int64]


class EdgeHistory:
    """The edges of B events, found by bisection; positions are event numbers of the log, rising, with gaps.

    Every event is one number, rank of its edge · span + position, in one sorted array: the last event of an
    edge before p is the last number below rank · span + p.

    It holds 8 bytes per event and 16 per distinct edge; while it is made, 75 per event.
    """

    def __init__(
        self,
        src_B: NodeIds,
        dst_B: NodeIds,
        position_B: Positions,
        *,
        num_nodes: int,
    ) -> None:
        if (position_B[1:] <= position_B[:-1]).any():
            raise ValueError("positions of events must rise; give the parts of a log in order, each once")
        self.num_nodes = num_nodes
        self._span = int(position_B[-1]) + 1 if len(position_B) else 1
        key_B = edge_keys(src_B, dst_B, num_nodes)
        # stable, so the events of an edge stay in order
        order_B = np.argsort(key_B, kind="stable")
        key_B, position_B = key_B[order_B], position_B[order_B]
        is_first_B = np.ones(len(key_B), dtype=np.bool_)
        np.not_equal(key_B[1:], key_B[:-1], out=is_first_B[1:])
        self.keys_G: EdgeKeys = key_B[is_first_B]
        """Distinct edges, sorted; `edge_ends` takes them apart."""
        self.first_positions_G: Positions = position_B[is_first_B]
        assert len(self.keys_G) * self._span < 2**63, "edges × events beyond 64 bits"
        self._events_B = np.cumsum(is_first_B, dtype=np.int64)
        self._events_B -= 1
        self._events_B *= self._span
        self._events_B += position_B

    @classmethod
    def of(cls, *views: EventView) -> "EdgeHistory":
        """Make the history of one or several parts of a log, in order."""
        size, log = sum(len(view) for view in views), views[0].log
        src_B, dst_B = np.empty((2, size), dtype=np.int32)
        position_B = np.empty(size, dtype=np.int64)
        start = 0
        for chunk in chain.from_iterable(view.stream() for view in views):
            rows = slice(start, start + len(chunk))
            src_B[rows], dst_B[rows] = chunk.columns.src, chunk.columns.dst
            position_B[rows] = chunk.index
            start += len(chunk)
        return cls(src_B, dst_B, position_B, num_nodes=log.num_nodes)

    def last_before(self, src_Q: NodeIds, dst_Q: NodeIds, position: int | Positions) -> Positions:
        """Return the position of each edge's last event before `position` (one, or one each); -1 where none
        is."""
        rank_Q, place_Q = self._places_before(src_Q, dst_Q, position)
        place_Q -= 1
        found_Q = (rank_Q >= 0) & (place_Q >= 0)
        last_Q = np.full(len(rank_Q), -1, dtype=np.int64)
        last_Q[found_Q] = self._events_B[place_Q[found_Q]] - rank_Q[found_Q] * self._span
        # what lies before the first event of an edge belongs to another one
        return np.maximum(last_Q, -1)

    def count_before(self, src_Q: NodeIds, dst_Q: NodeIds, position: int) -> Positions:
        """Return how many events each edge has before a position."""
        rank_Q, place_Q = self._places_before(src_Q, dst_Q, position)
        count_Q: Positions = place_Q - np.searchsorted(self._events_B, rank_Q * self._span)
        return np.where(rank_Q >= 0, count_Q, 0)

    def num_edges_before(self, position: int) -> int:
        """Return how many distinct edges there are before a position."""
        return int(np.searchsorted(self._sorted_first_positions, position))

    def events_by_edge(self) -> tuple[Positions, Positions]:
        """Return for all events, edge by edge in the order of `keys_G`, the edge's number and the
        position."""
        edge_B, position_B = np.divmod(self._events_B, self._span)
        return edge_B, position_B

    @cached_property
    def _sorted_first_positions(self) -> Positions:
        return np.sort(self.first_positions_G)

    def _places_before(
        self, src_Q: NodeIds, dst_Q: NodeIds, position: int | Positions
    ) -> tuple[Positions, Positions]:
        """Return the rank of each edge, -1 where it is none, and how many events come before it and a
        position."""
        rank_Q = places_in(self.keys_G, edge_keys(src_Q, dst_Q, self.num_nodes))
        limit_Q = rank_Q * self._span + np.clip(position, 0, self._span)
        return rank_Q, np.searchsorted(self._events_B, limit_Q)


def edge_keys(src_B: NodeIds, dst_B: NodeIds, num_nodes: int) -> EdgeKeys:
    """Return one number per directed edge, sorted as (source, destination)."""
    key_B = src_B.astype(np.int64)
    key_B *= num_nodes
    key_B += dst_B
    return key_B


def edge_ends(key_B: EdgeKeys, num_nodes: int) -> tuple[NodeIds, NodeIds]:
    """Return the sources and destinations of keys."""
    src_B, dst_B = np.divmod(key_B, num_nodes)
    return src_B.astype(np.int32), dst_B.astype(np.int32)


def places_in(sorted_U: npt.NDArray[np.integer], value_Q: npt.NDArray[np.integer]) -> Positions:
    """Return where each value stands among sorted distinct ones; -1 where it does not."""
    place_Q = np.searchsorted(sorted_U, value_Q)
    known_Q = place_Q < len(sorted_U)
    known_Q[known_Q] = sorted_U[place_Q[known_Q]] == value_Q[known_Q]
    return np.where(known_Q, place_Q, -1)
