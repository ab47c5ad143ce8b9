"""A synthetic log that can be learnt: people with communities, habits and friends of friends.

Inside, nodes are numbered in the order they join; on the way out they get ids under which contiguous
blocks carry about equal degree. Events are drawn by small blocks that see the town as it was before the
block, so all work is array work and memory grows with the nodes only.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from data_prep.dense_ids import assign_dense_ids
from tpnet_dist.errors import InputError
from tpnet_dist.events import EventColumns
from tpnet_dist.events.shards import concatenate

AVERAGE_DEGREE = 60.0
EVENTS_PER_CHUNK = 250_000
NUM_CENSUSES = 200
SECONDS_PER_DAY = 86_400
REPEAT, CLOSURE, COMMUNITY, HUB, NOISE = range(5)

Ids = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SocialHabits:
    """The habits by which a source chooses its destination, and the kinds of nodes."""

    repeat: float = 0.60
    """Share of events that go to a recent partner of the source."""
    closure: float = 0.18
    """Share that go to a recent partner of a recent partner, which two-step walks can see."""
    community: float = 0.14
    """Share that go to a member of the source's community, chosen by popularity."""
    hub: float = 0.05
    """Share that go to any node, chosen by popularity. What is left of the events is noise."""
    recency: float = 2.0
    """A recent partner's age is drawn as u^recency, u uniform: 1 prefers nobody, more the latest."""
    partners_remembered: int = 16
    """The partners of this many latest events of a node are its recent ones."""
    community_size: int = 50
    """Mean number of members once all nodes have joined."""
    moves: float = 1.0
    """The number of times that a node changes community in the course of the log, on average."""
    founders: float = 0.4
    """Share of the nodes that are there from the start; the others join evenly until the last event."""
    tail: float = 2.0
    """Pareto exponent of activity and of popularity; the smaller, the bigger the hubs."""
    days: float = 30.0
    """Time the log covers, whatever its number of events, so that one decay rate suits all sizes."""
    rhythm: float = 0.8
    """The extent to which the rate of events swings around its mean between midnight and noon; 0 is not at
    all."""

    def __post_init__(self) -> None:
        shares = (self.repeat, self.closure, self.community, self.hub)
        rules = (
            ("shares repeat, closure, community, hub", shares, min(shares) >= 0 and sum(shares) < 1 + 1e-9,
             "be at least 0 and at most 1 together"),
            ("recency", self.recency, self.recency > 0, "be above 0"),
            ("partners_remembered", self.partners_remembered, self.partners_remembered >= 1, "be at least 1"),
            ("community_size", self.community_size, self.community_size >= 1, "be at least 1"),
            ("moves", self.moves, self.moves >= 0, "be at least 0"),
            ("founders", self.founders, 0 < self.founders <= 1, "be above 0 and at most 1"),
            ("tail", self.tail, self.tail > 1, "be above 1"),
            ("days", self.days, self.days > 0, "be above 0"),
            ("rhythm", self.rhythm, 0 <= self.rhythm < 1, "be at least 0 and below 1"),
        )  # fmt: skip
        for name, value, holds, rule in rules:
            if not holds:
                raise InputError(f"social habit {name}: {value} must {rule}; leave it away for the default")


def social_events(
    *, events: int, nodes: int, seed: int, first_time: int = 0, habits: SocialHabits | None = None
) -> Iterator[EventColumns]:
    """Yield the log in chunks."""
    town = _Town(events, nodes, np.random.default_rng(seed), habits or SocialHabits())
    blocks: list[EventColumns] = []
    blocks_per_chunk = EVENTS_PER_CHUNK // town.block_events
    for start in range(0, events, town.block_events):
        blocks.append(town.draw_block(start, min(start + town.block_events, events), first_time))
        if len(blocks) == blocks_per_chunk:
            yield concatenate(blocks)
            blocks = []
    if blocks:
        yield concatenate(blocks)


class _Town:
    """Knows who has joined, whom they meet, and when."""

    def __init__(self, events: int, nodes: int, rng: np.random.Generator, habits: SocialHabits) -> None:
        # a block long enough for numpy, yet in which few nodes appear twice
        self.block_events = min(max(nodes // 16, 16), 4096)
        self._events, self._nodes, self._rng, self._habits = events, nodes, rng, habits
        self._num_founders = min(nodes, max(2, round(habits.founders * nodes)))
        activity, popularity = _pareto(nodes, habits.tail, rng), _pareto(nodes, habits.tail, rng)
        self._activity_up_to, self._popularity_up_to = np.cumsum(activity), np.cumsum(popularity)
        self._public_ids = self._deal_public_ids(activity + popularity)
        self._partners = _RecentPartners(nodes, habits.partners_remembered, habits.recency, rng)
        self._communities = _Communities(popularity, habits.community_size, rng)
        self._next_census = 0
        self._clock = _DailyClock(habits.days * SECONDS_PER_DAY / events, habits.rhythm, rng)
        shares = (habits.repeat, habits.closure, habits.community, habits.hub)
        self._share_borders = np.cumsum(shares)

    def draw_block(self, start: int, stop: int, first_time: int) -> EventColumns:
        if start >= self._next_census:
            self._take_census(start)
        source = self._choose_sources(start, stop)
        target = self._choose_targets(source, num_joined=self._joined_by(stop))
        self._partners.remember(source, target)
        time = first_time + self._clock.tick(stop - start)
        label = np.zeros(stop - start, np.float32)
        return EventColumns(self._public_ids[source], self._public_ids[target], time, label)

    def _deal_public_ids(self, weight: Weights) -> npt.NDArray[np.int32]:
        """Deal by forecast degree: a node's share of the events shrinks as others join, so ∫ 1/joined."""
        joined_at_start = np.maximum(np.arange(self._nodes), self._num_founders - 1)
        return assign_dense_ids(weight * np.log(self._nodes / joined_at_start)).astype(np.int32)

    def _joined_by(self, event: int) -> int:
        return self._num_founders + (self._nodes - self._num_founders) * event // self._events

    def _take_census(self, event: int) -> None:
        num_joined = self._joined_by(event)
        num_movers = self._rng.poisson(self._habits.moves * num_joined / NUM_CENSUSES)
        self._communities.take_census(num_joined, num_movers)
        self._next_census = event + self._events // NUM_CENSUSES

    def _choose_sources(self, start: int, stop: int) -> Ids:
        """Choose sources by activity; but whoever joins during the block opens with an event of its own."""
        joined_before, num_joined = self._joined_by(start), self._joined_by(stop)
        source = _draw_by_weight(self._activity_up_to[:num_joined], stop - start, self._rng)
        newcomers = np.arange(joined_before, num_joined)[: stop - start]
        source[: len(newcomers)] = newcomers
        return source

    def _choose_targets(self, source: Ids, *, num_joined: int) -> Ids:
        rng, size = self._rng, len(source)
        habit = np.searchsorted(self._share_borders, rng.random(size), side="right")
        partner = self._partners.pick(source)
        target = np.where(
            habit == REPEAT, partner, np.where(habit == CLOSURE, self._partners.pick(partner), -1)
        )
        stranger = (source + rng.integers(1, num_joined, size=size)) % num_joined
        target = np.where(habit == NOISE, stranger, target)
        to_hub = np.flatnonzero(habit == HUB)
        target[to_hub] = _draw_by_weight(self._popularity_up_to[:num_joined], len(to_hub), rng)
        # also those who wanted a partner and have none, or came back to themselves
        to_community = np.flatnonzero((target < 0) | (target == source))
        target[to_community] = self._communities.pick_member(source[to_community])
        return np.where(target == source, stranger, target)


class _RecentPartners:
    """The latest partners of every node, in rings."""

    def __init__(self, nodes: int, slots: int, recency: float, rng: np.random.Generator) -> None:
        self._recency, self._rng, self._slots = recency, rng, slots
        self._partner_NM = np.full((nodes, slots), -1, dtype=np.int32)
        self._num_events_N = np.zeros(nodes, dtype=np.int32)

    def pick(self, node: Ids) -> Ids:
        """Return a recent partner of each node; -1 for nodes without one and for node -1."""
        num_events = self._num_events_N[node]
        age = np.minimum(num_events, self._slots) * self._rng.random(len(node)) ** self._recency
        slot = (num_events - 1 - age.astype(np.int64)) % self._slots
        return np.where(node < 0, np.int64(-1), self._partner_NM[node, slot])

    def remember(self, source: Ids, target: Ids) -> None:
        """Enter each event at both ends; several of one node go to successive slots, in order."""
        node, partner = np.column_stack((source, target)).ravel(), np.column_stack((target, source)).ravel()
        order = np.argsort(node, kind="stable")
        node, partner = node[order], partner[order]
        first = np.flatnonzero(np.diff(node, prepend=-1))
        num_new = np.diff(first, append=len(node))
        place = np.arange(len(node)) - np.repeat(first, num_new)
        self._partner_NM[node, (self._num_events_N[node] + place) % self._slots] = partner
        self._num_events_N[node[first]] += num_new


class _Communities:
    """Knows who belongs where. Moves and newcomers count from the next census on, which costs O(nodes)."""

    def __init__(self, popularity: Weights, mean_size: int, rng: np.random.Generator) -> None:
        self._popularity, self._rng = popularity, rng
        self._num = max(1, round(len(popularity) / mean_size))
        self._community = rng.integers(self._num, size=len(popularity), dtype=np.int32)
        self.take_census(len(popularity), num_movers=0)

    def take_census(self, num_joined: int, num_movers: int) -> None:
        movers = self._rng.integers(num_joined, size=num_movers)
        self._community[movers] = self._rng.integers(self._num, size=num_movers)
        community = self._community[:num_joined]
        self._members = np.argsort(community, kind="stable")
        self._popularity_up_to = np.cumsum(self._popularity[self._members])
        borders = np.cumsum(np.bincount(community, minlength=self._num))
        self._weight_borders = np.append(0.0, self._popularity_up_to)[np.append(0, borders)]

    def pick_member(self, node: Ids) -> Ids:
        """Return a member of each node's community, perhaps the node itself; of the next one if it is
        deserted."""
        low, high = (self._weight_borders[self._community[node] + end] for end in (0, 1))
        wanted = low + (high - low) * self._rng.random(len(node))
        return self._members[_places(self._popularity_up_to, wanted)]


class _DailyClock:
    """Random gaps of a given mean, stretched at night and squeezed by day."""

    def __init__(self, mean_gap: float, rhythm: float, rng: np.random.Generator) -> None:
        self._mean_gap, self._rng, self._even_time = mean_gap, rng, 0.0
        self._second = np.linspace(0, SECONDS_PER_DAY, 24 * 60 + 1)
        turn = 2 * np.pi / SECONDS_PER_DAY
        # the integral of the rate 1 - rhythm · cos; its inverse turns even time into the day's
        self._even_second = self._second - rhythm * np.sin(turn * self._second) / turn

    def tick(self, size: int) -> Ids:
        even_time = self._even_time + np.cumsum(self._rng.exponential(self._mean_gap, size))
        self._even_time = float(even_time[-1])
        day, even_second = np.divmod(even_time, SECONDS_PER_DAY)
        time = day * SECONDS_PER_DAY + np.interp(even_second, self._even_second, self._second)
        return time.astype(np.int64)


def _draw_by_weight(weight_up_to: Weights, size: int, rng: np.random.Generator) -> Ids:
    return _places(weight_up_to, rng.random(size) * weight_up_to[-1])


def _places(weight_up_to: Weights, wanted: Weights) -> Ids:
    """Return where each wanted sum is passed; rounding may put it at the very end, which is nobody's."""
    places: Ids = np.searchsorted(weight_up_to, wanted, side="right")
    return places.clip(max=len(weight_up_to) - 1)


def _pareto(size: int, tail: float, rng: np.random.Generator) -> Weights:
    """Return Pareto quantiles in random order: unlike draws, they give no seed a freak hub."""
    return rng.permutation((np.arange(1, size + 1) / size) ** (-1 / tail))
