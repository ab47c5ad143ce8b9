"""Negatives: random destinations, and edges seen before (Poursafaei et al. 2022), as functions of the event.

Who draws decides on the universe: training events in training, all events in transductive evaluation, the
split's inductive events in inductive evaluation. Draws are keyed by seed, epoch and event number, so any
number of ranks and any restart draw the same.
"""

from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from tpnet_dist.events.batch_plan import Positions
from tpnet_dist.events.edge_history import (
    EdgeHistory,
    EdgeKeys,
    NodeIds,
    edge_ends,
    edge_keys,
    places_in,
)
from tpnet_dist.events.moment_edges import MomentEdges
from tpnet_dist.events.view import EventView, SelectedEvents
from tpnet_dist.keyed_random import SampleKey, keyed_integers

DESTINATION_STREAM, SEEN_EDGE_STREAM, PAIR_SOURCE_STREAM, PAIR_DESTINATION_STREAM = range(4)
PAIR_ATTEMPTS = 20


class RandomDestinations:
    """Destinations drawn evenly from the distinct ones of a universe; the source stays."""

    def __init__(self, destinations: npt.NDArray[np.integer]) -> None:
        self.destinations_U: NodeIds = np.unique(destinations).astype(np.int32)
        if not len(self.destinations_U):
            raise ValueError("no destination to draw from; give a universe of at least one event")

    @classmethod
    def of(cls, *views: EventView) -> "RandomDestinations":
        """Take the destinations of all events of the views; this needs a byte per node, not per event."""
        is_destination = np.zeros(views[0].log.num_nodes, dtype=np.bool_)
        for chunk in chain.from_iterable(view.stream() for view in views):
            is_destination[chunk.columns.dst] = True
        return cls(np.flatnonzero(is_destination))

    def draw(
        self, key: SampleKey, event_B: Positions, count: int, *, avoid_B: NodeIds | None = None
    ) -> NodeIds:
        """(B, count) nodes, with repeats; none is its event's node in `avoid_B`, unless there is no other."""
        num_nodes = len(self.destinations_U)
        if avoid_B is None:
            place_BC = keyed_integers(key, event_B, stream=DESTINATION_STREAM, count=count, below=num_nodes)
            return self.destinations_U[place_BC]
        avoided_B = places_in(self.destinations_U, avoid_B)
        num_others_B = np.maximum(num_nodes - (avoided_B >= 0), 1)
        place_BC = keyed_integers(key, event_B, stream=DESTINATION_STREAM, count=count, below=num_others_B)
        if num_nodes > 1:
            place_BC += (avoided_B >= 0)[:, None] & (place_BC >= avoided_B[:, None])
        return self.destinations_U[place_BC]


@dataclass(frozen=True)
class _Allowed:
    """What negatives of the moments first … last may be: the first `num_seen` edges without some places."""

    moments: tuple[int, int]
    true_keys: EdgeKeys
    num_seen: int
    excluded_A: Positions


class SeenEdges:
    """`historical` and, given the known edges, `inductive` negatives: both ends of an edge seen earlier.

    Candidates of a batch: distinct edges of the universe, first seen before the batch's first moment and
    absent from all of its moments, within the batch and beyond, so no negative is an event of the batch's
    own times; `inductive` ones are absent from the known too. Edges stand in order of first appearance, so
    candidates are a prefix without some places: drawing one is drawing a number and stepping over those.
    Nothing is rejected and no set of pairs is made; it holds 32 bytes per edge and 16 per event. Batches of
    one moment share what was found for the first of them.

    `moments` holds every event that may be drawn for, those beyond the universe included.
    """

    def __init__(
        self, universe: EdgeHistory, moments: MomentEdges, *, known: EdgeHistory | None = None
    ) -> None:
        if not len(universe.keys_G):
            raise ValueError("no edge to draw from; give a universe of at least one event")
        key_A, first_A = universe.keys_G, universe.first_positions_G
        if known is not None:
            assert known.num_nodes == universe.num_nodes, "known edges and universe of different logs"
            is_new = places_in(known.keys_G, key_A) < 0
            key_A, first_A = key_A[is_new], first_A[is_new]
        order_A = np.argsort(first_A)
        self._num_nodes, self._moments = universe.num_nodes, moments
        self._first_positions_A, self._keys_A = first_A[order_A], key_A[order_A]
        self._sorted_keys_A, self._place_of_sorted_A = key_A, np.argsort(order_A)
        src_G, dst_G = edge_ends(universe.keys_G, universe.num_nodes)
        self._sources_U, self._destinations_U = np.unique(src_G), np.unique(dst_G)
        self._allowed: _Allowed | None = None

    def draw(self, key: SampleKey, batch: SelectedEvents, start: int, stop: int) -> tuple[NodeIds, NodeIds]:
        """Sources and destinations of the negatives of places start … stop-1 of the whole batch given.

        With at least B candidates each event draws one of its own, so they may repeat. With only c < B, the
        first B - c places get random pairs and the others the c candidates, each once.
        """
        event_B = batch.index
        assert 0 <= start <= stop <= len(event_B), (start, stop, len(event_B))
        if start == stop:
            return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
        allowed = self._allowed_during(int(batch.moment[0]), int(batch.moment[-1]))
        num_candidates = allowed.num_seen - len(allowed.excluded_A)
        num_random = max(0, len(event_B) - num_candidates)
        if num_random:
            nth = np.arange(max(start, num_random), max(stop, num_random)) - num_random
        else:
            own_B = event_B[start:stop]
            nth = keyed_integers(key, own_B, stream=SEEN_EDGE_STREAM, count=1, below=num_candidates)[:, 0]
        seen_keys = self._keys_A[_step_over(allowed.excluded_A, nth)]
        random_keys = self._random_pairs(key, event_B[start : min(stop, num_random)], allowed.true_keys)
        return edge_ends(np.concatenate([random_keys, seen_keys]), self._num_nodes)

    def _allowed_during(self, first: int, last: int) -> _Allowed:
        """Made once for batches in a row of the same moments, as pieces of a large one are."""
        if self._allowed is None or self._allowed.moments != (first, last):
            true_keys = self._moments.during(first, last)
            num_seen = int(np.searchsorted(self._first_positions_A, first))
            sorted_place = places_in(self._sorted_keys_A, true_keys)
            place = self._place_of_sorted_A[sorted_place[sorted_place >= 0]]
            self._allowed = _Allowed((first, last), true_keys, num_seen, np.sort(place[place < num_seen]))
        return self._allowed

    def _random_pairs(self, key: SampleKey, event_A: Positions, true_keys: EdgeKeys) -> EdgeKeys:
        """Keys of pairs that are none of these edges; the first attempt where all of them are."""
        if not len(event_A):
            return np.empty(0, dtype=np.int64)
        src_AM, dst_AM = (
            nodes_U[keyed_integers(key, event_A, stream=stream, count=PAIR_ATTEMPTS, below=len(nodes_U))]
            for stream, nodes_U in (
                (PAIR_SOURCE_STREAM, self._sources_U),
                (PAIR_DESTINATION_STREAM, self._destinations_U),
            )
        )
        key_AM = edge_keys(src_AM, dst_AM, self._num_nodes)
        attempt_A = np.isin(key_AM, true_keys).argmin(axis=1)
        return np.take_along_axis(key_AM, attempt_A[:, None], axis=1)[:, 0]


def _step_over(excluded_A: Positions, nth: Positions) -> Positions:
    """The place of the nth number that is not excluded: excluded 1 2 5, nth 0 1 2 3 → 0 3 4 6."""
    return nth + np.searchsorted(excluded_A - np.arange(len(excluded_A)), nth, side="right")
