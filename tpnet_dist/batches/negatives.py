"""Which negatives a part of the log is scored against, and the universe they are drawn from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tpnet_dist.config.schema import NegativeKind
from tpnet_dist.events.edge_history import EdgeHistory
from tpnet_dist.events.negatives import RandomDestinations, SeenEdges
from tpnet_dist.events.time_group_edges import TimeGroupEdges
from tpnet_dist.events.view import EventView, SelectedEvents
from tpnet_dist.keyed_random import SampleKey

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True)
class NegativeEnds:
    """What a slice's events are scored against."""

    src_B: Ids | None
    """The sources of negatives; None: the source of the event itself."""
    dst_BC: Ids


class Negatives(Protocol):
    def draw(self, batch: SelectedEvents, here: slice) -> NegativeEnds:
        """Draw negatives for the events `here` of a whole batch; they are the same whichever rank asks."""


@dataclass(frozen=True)
class RandomNegatives:
    """Draws other destinations for a source, from the distinct ones of the universe."""

    destinations: RandomDestinations
    key: SampleKey
    count: int = 1
    avoid_true: bool = False
    """Whether the true destination is left out, as in ranking, where it does not compete with itself."""

    def draw(self, batch: SelectedEvents, here: slice) -> NegativeEnds:
        mine = batch[here]
        avoided_B = mine.columns.dst if self.avoid_true else None
        return NegativeEnds(None, self.destinations.draw(self.key, mine.index, self.count, avoid_B=avoided_B))


@dataclass(frozen=True)
class SeenNegatives:
    """Replaces both ends by those of an edge that was seen earlier and that none of the batch's times has."""

    edges: SeenEdges
    key: SampleKey

    def draw(self, batch: SelectedEvents, here: slice) -> NegativeEnds:
        start, stop, _ = here.indices(len(batch))
        src_B, dst_B = self.edges.draw(self.key, batch, start, stop)
        return NegativeEnds(src_B, dst_B[:, None])


def first_unseen(batch: SelectedEvents, before_time_group: bool) -> int:
    """Return the event of the log before which a batch may look back.

    In `events` batching that is its first event. In `timestamps` batching it is the first of the same time,
    since a batch may be a piece of a larger group, of whose other pieces nothing must be known.
    """
    return int((batch.time_group if before_time_group else batch.index)[0])


class Universe:
    """Holds the events that negatives are drawn from; what drawing takes is made on first use, once.

    `inductive` negatives are edges first seen after the `known` events: for validation what happened up to
    the end of training, events of new nodes included, for test up to the end of validation, as in DyGLib.
    `before_time_group`: EdgeBank knows edges of earlier times, not merely of earlier batches.
    """

    def __init__(
        self, events: EventView, *, known: EventView | None = None, before_time_group: bool = False
    ) -> None:
        self._events, self._known, self.before_time_group = events, known, before_time_group
        self._destinations: RandomDestinations | None = None
        self._time_groups: TimeGroupEdges | None = None
        self._edges: dict[NegativeKind, SeenEdges] = {}

    def random(self, key: SampleKey, count: int = 1, *, avoid_true: bool = False) -> RandomNegatives:
        self._destinations = self._destinations or RandomDestinations.of(self._events)
        return RandomNegatives(self._destinations, key, count, avoid_true)

    def negatives(self, kinds: Sequence[NegativeKind], key: SampleKey) -> list[Negatives]:
        """Return sources of negatives in the order of `kinds`, of which `random` must be the first if it is
        among them."""
        return [
            self.random(key) if kind == "random" else SeenNegatives(self._seen(kind), key) for kind in kinds
        ]

    def _seen(self, kind: NegativeKind) -> SeenEdges:
        if self._time_groups is None:
            # also of events that the universe leaves out: what happened is no negative
            events = self._events
            self._time_groups = TimeGroupEdges.of(EventView(events.log, events.start, events.stop))
        if kind not in self._edges:
            known = self._known if kind == "inductive" else None
            self._edges[kind] = SeenEdges(
                EdgeHistory.of(self._events),
                self._time_groups,
                known=None if known is None else EdgeHistory.of(known),
            )
        return self._edges[kind]
