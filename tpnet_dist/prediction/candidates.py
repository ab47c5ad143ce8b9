"""Which destinations a source is ranked among, where ranking all of them takes too long.

recent    those whose last event is the latest
popular   those with the most events
two-hop   those the source met lately, those they met, and so on to the destinations' side; by how many ways
          lead there, then filled up with popular ones
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from tpnet_dist.events.raw_ids import Dense, RawIds
from tpnet_dist.prediction.past import Past

Strategy = Literal["all", "recent", "popular", "two-hop"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)
DEFAULT_COUNT = 1000
PARTNERS = 20
"""How many of a node's latest partners are followed."""
_NOBODY = np.empty(0, np.int64)

Targets = npt.NDArray[np.int64]
"""(sources, candidates), the same width for all."""
IsThere = npt.NDArray[np.bool_]
"""Which of them stand for a candidate; the others fill the row."""


@dataclass
class CandidateChoice:
    """Chooses destinations by what has happened so far."""

    past: Past
    ids: RawIds
    _ranked: dict[str, Dense] = field(default_factory=dict)
    _as_of: int = -1
    """How many events the ranked destinations know of."""

    def choose(
        self, strategy: str, source_B: Dense, count: int, without_B: Sequence[Dense] | None
    ) -> tuple[Targets, IsThere | None]:
        """Return up to `count` candidates of each source, none of those it is to be without."""
        without = without_B or [_NOBODY] * len(source_B)
        if strategy == "two-hop":
            popular = self._ranking("popular")
            chosen = [
                _first(np.concatenate([near, popular]), left_out, count)
                for near, left_out in zip(self._two_hop(source_B), without, strict=True)
            ]
        else:
            ranking = self._ranking(strategy)
            chosen = [_first(ranking, left_out, count) for left_out in without]
        return _as_rows(chosen, fill=int(self.ids.destinations()[0]))

    def seen(self, source_B: Dense) -> list[Dense]:
        """Return the destinations each source has had an event with, in either direction."""
        sizes = self.past.neighbors.num_interactions(source_B, self.past.num_events)
        return [
            np.unique(self._partners(source_B[row : row + 1], int(size))[0]) if size else _NOBODY
            for row, size in enumerate(sizes)
        ]

    def _ranking(self, strategy: str) -> Dense:
        """Return all destinations, the first choice first; kept until something happens."""
        if self._as_of != self.past.num_events:
            self._ranked.clear()
            self._as_of = self.past.num_events
        if strategy not in self._ranked:
            nodes = self.ids.destinations()
            if strategy == "popular":
                rate = self.past.neighbors.num_interactions(nodes, self.past.num_events)
            else:
                bound = torch.full((len(nodes),), self.past.num_events)
                last = self.past.neighbors.recent(torch.from_numpy(nodes), bound, count=1)
                rate = last.events_BM[:, 0].numpy()
            self._ranked[strategy] = nodes[np.argsort(-rate, kind="stable")]
        return self._ranked[strategy]

    def _two_hop(self, source_B: Dense) -> list[Dense]:
        """Return what the latest partners of each source lead to, what most ways lead to first."""
        return [self._reached(source) for source in source_B]

    def _reached(self, source: int) -> Dense:
        first = self._step(np.array([source]))
        reached = [first]
        # with two sides every second step is one of sources
        hops = (2, 3) if self.ids.is_bipartite else (2,)
        at = first
        for hop in hops:
            at = self._step(np.unique(at))
            if hop != 2 or not self.ids.is_bipartite:
                reached.append(at)
        nodes, ways = np.unique(np.concatenate(reached), return_counts=True)
        return np.asarray(nodes[np.argsort(-ways, kind="stable")], np.int64)

    def _step(self, nodes: Dense) -> Dense:
        """Return the latest partners of all nodes together, as often as they were met."""
        if not len(nodes):
            return _NOBODY
        return np.concatenate(self._partners(nodes, PARTNERS))

    def _partners(self, node_B: Dense, count: int) -> list[Dense]:
        bound = torch.full((len(node_B),), self.past.num_events)
        found = self.past.neighbors.recent(torch.from_numpy(np.asarray(node_B)), bound, count=count)
        ids_BM, mask_BM = found.ids_BM.numpy(), found.mask_BM.numpy()
        return [ids_M[mask_M].astype(np.int64) for ids_M, mask_M in zip(ids_BM, mask_BM, strict=True)]


def _first(ranking: Dense, left_out: Dense, count: int) -> Dense:
    """Return the first ones, each once."""
    # enough of them, whatever is left out or comes twice
    head = ranking[: 2 * count + len(left_out) + PARTNERS**3]
    _, place = np.unique(head, return_index=True)
    once = head[np.sort(place)]
    return once[~np.isin(once, left_out)][:count] if len(left_out) else once[:count]


def _as_rows(chosen: Sequence[Dense], *, fill: int) -> tuple[Targets, IsThere]:
    width = max(map(len, chosen), default=0)
    target_BC = np.full((len(chosen), width), fill, np.int64)
    is_there_BC = np.zeros(target_BC.shape, bool)
    for row, some in enumerate(chosen):
        target_BC[row, : len(some)] = some
        is_there_BC[row, : len(some)] = True
    return target_BC, is_there_BC
