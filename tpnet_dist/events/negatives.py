"""Negatives: random destinations, and edges seen before (Poursafaei et al. 2022), as functions of the event.

Who draws decides on the universe: training events in training, all events in transductive evaluation, the
split's inductive events in inductive evaluation. Draws are keyed by seed, epoch and event numbers, those of
the whole batch where its negatives are distinct, so any number of ranks and any restart draw the same.
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
from tpnet_dist.events.time_group_edges import TimeGroupEdges
from tpnet_dist.events.view import EventView, SelectedEvents
from tpnet_dist.keyed_random import SampleKey, keyed_choice, keyed_integers

DESTINATION_STREAM, SEEN_EDGE_STREAM, PAIR_STREAM = range(3)


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
        """Draw (B, count) nodes, with repeats; none is its event's node in `avoid_B`, unless there is no
        other."""
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
    """The pairs that negatives of the time groups first … last may be: the first `num_seen` edges without
    some places, and pairs of a source and a destination without some numbers."""

    time_groups: tuple[int, int]
    num_seen: int
    excluded_A: Positions
    excluded_pairs_A: Positions

    @property
    def num_candidates(self) -> int:
        return self.num_seen - len(self.excluded_A)


class SeenEdges:
    """`historical` and, given the known edges, `inductive` negatives: both ends of an edge seen earlier.

    Candidates of a batch: distinct edges of the universe, first seen before the batch's first time group and
    absent from all of its time groups, within the batch and beyond, so no negative is an event of the batch's
    own times; `inductive` ones are absent from the known too. Edges stand in order of first appearance, so
    candidates are a prefix without some places: drawing one is drawing a number and stepping over those.
    Random pairs are numbered too, source by source. Nothing is rejected and no set of pairs is made; it holds
    32 bytes per edge and 16 per event. Batches of one time group share what was found for the first of them.

    `time_groups` holds every event that may be drawn for, those beyond the universe included.
    """

    def __init__(
        self, universe: EdgeHistory, time_groups: TimeGroupEdges, *, known: EdgeHistory | None = None
    ) -> None:
        if not len(universe.keys_G):
            raise ValueError("no edge to draw from; give a universe of at least one event")
        key_A, first_A = universe.keys_G, universe.first_positions_G
        if known is not None:
            assert known.num_nodes == universe.num_nodes, "known edges and universe of different logs"
            is_new = places_in(known.keys_G, key_A) < 0
            key_A, first_A = key_A[is_new], first_A[is_new]
        order_A = np.argsort(first_A)
        self._num_nodes, self._time_groups = universe.num_nodes, time_groups
        self._first_positions_A, self._keys_A = first_A[order_A], key_A[order_A]
        self._sorted_keys_A, self._place_of_sorted_A = key_A, np.argsort(order_A)
        src_G, dst_G = edge_ends(universe.keys_G, universe.num_nodes)
        self._sources_U, self._destinations_U = np.unique(src_G), np.unique(dst_G)
        self._allowed: _Allowed | None = None

    def draw(self, key: SampleKey, batch: SelectedEvents, start: int, stop: int) -> tuple[NodeIds, NodeIds]:
        """Draw sources and destinations of the negatives of places start … stop-1 of the whole batch given.

        With at least B candidates each event draws one, all distinct. With only c < B, the first B - c places
        get random pairs, distinct as far as there are so many, and the others the c candidates, each once.
        """
        event_B = batch.index
        assert 0 <= start <= stop <= len(event_B), (start, stop, len(event_B))
        if start == stop:
            return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
        allowed = self._allowed_during(int(batch.time_group[0]), int(batch.time_group[-1]))
        num_random = max(0, len(event_B) - allowed.num_candidates)
        nth_B = keyed_choice(
            key, event_B[num_random:], stream=SEEN_EDGE_STREAM, below=max(1, allowed.num_candidates)
        )
        seen_B = self._keys_A[_step_over(allowed.excluded_A, nth_B)]
        random_B = self._random_pairs(key, event_B[:num_random], allowed.excluded_pairs_A)
        return edge_ends(np.concatenate([random_B, seen_B])[start:stop], self._num_nodes)

    def _allowed_during(self, first: int, last: int) -> _Allowed:
        """Return what negatives may be; made once for batches in a row of the same time groups, such as
        pieces of a large one."""
        if self._allowed is None or self._allowed.time_groups != (first, last):
            true_keys = self._time_groups.during(first, last)
            num_seen = int(np.searchsorted(self._first_positions_A, first))
            sorted_place = places_in(self._sorted_keys_A, true_keys)
            place = self._place_of_sorted_A[sorted_place[sorted_place >= 0]]
            excluded_A = np.sort(place[place < num_seen])
            self._allowed = _Allowed((first, last), num_seen, excluded_A, self._pair_numbers(true_keys))
        return self._allowed

    def _pair_numbers(self, keys_A: EdgeKeys) -> Positions:
        """Return the numbers of those edges that are pairs of the universe's sources and destinations,
        sorted."""
        src_A, dst_A = edge_ends(keys_A, self._num_nodes)
        source_A, destination_A = places_in(self._sources_U, src_A), places_in(self._destinations_U, dst_A)
        is_pair_A = (source_A >= 0) & (destination_A >= 0)
        return source_A[is_pair_A] * len(self._destinations_U) + destination_A[is_pair_A]

    def _random_pairs(self, key: SampleKey, event_A: Positions, excluded_A: Positions) -> EdgeKeys:
        """Draw keys of pairs that are none of the batch's time groups; any where all of them are."""
        num_pairs = len(self._sources_U) * len(self._destinations_U)
        if len(excluded_A) == num_pairs:
            excluded_A = excluded_A[:0]
        nth_A = keyed_choice(key, event_A, stream=PAIR_STREAM, below=num_pairs - len(excluded_A))
        place_A = np.divmod(_step_over(excluded_A, nth_A), len(self._destinations_U))
        return edge_keys(self._sources_U[place_A[0]], self._destinations_U[place_A[1]], self._num_nodes)


def _step_over(excluded_A: Positions, nth: Positions) -> Positions:
    """Return the place of the nth number that is not excluded: excluded 1 2 5, nth 0 1 2 3 → 0 3 4 6."""
    return nth + np.searchsorted(excluded_A - np.arange(len(excluded_A)), nth, side="right")
