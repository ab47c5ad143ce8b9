"""Whatever is recorded, and however few slots there are, a held row is the row as it is.

Shape letters: U fetched nodes, V recorded ones, S slots.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpnet_dist.memory.cache_slots import CacheSlots
from tpnet_dist.memory.plan import Integers

NUM_NODES = 12
OWN = slice(4, 7)
REMOTE = [node for node in range(NUM_NODES) if not OWN.start <= node < OWN.stop]

Batch = tuple[list[int], list[int]]
"""Nodes whose rows are fetched, and nodes that are recorded after that."""


def numbers(nodes: list[int]) -> Integers:
    return np.array(nodes, np.int64)


class Copies:
    """A cache of versions instead of rows, kept by the plans of `CacheSlots`; checks all that it reads."""

    def __init__(self, capacity: int) -> None:
        self.slots = CacheSlots(NUM_NODES, capacity, OWN)
        self.version_N = np.zeros(NUM_NODES, np.int64)
        self.copy_S = [(-1, -1)] * capacity

    def fetch(self, *batches: Batch) -> list[list[int]]:
        """The held nodes of each batch."""
        nodes, recorded = ([numbers(batch[column]) for batch in batches] for column in (0, 1))
        run = self.slots.plan_run(nodes, recorded)
        held, kept, everything = iter(run.slot_H), iter(zip(run.row_K, run.slot_K, strict=True)), []
        row = 0
        for number, (node_U, node_V) in enumerate(zip(nodes, recorded, strict=True)):
            held_U = [
                int(node) for node, is_held in zip(node_U, run.is_held_U[row:], strict=False) if is_held
            ]
            for node in held_U:
                assert self.copy_S[next(held)] == (node, self.version_N[node])
            for _ in range(run.kept_G[number]):
                place, slot = next(kept)
                node = int(node_U[place - row])
                assert node in REMOTE
                assert node not in held_U
                self.copy_S[slot] = (node, int(self.version_N[node]))
            self.version_N[node_V] += 1
            row += len(node_U)
            everything.append(held_U)
        assert next(held, None) is None
        assert next(kept, None) is None
        return everything


nodes_of_batch = st.lists(st.integers(0, NUM_NODES - 1), unique=True, max_size=NUM_NODES).map(sorted)
recorded_nodes = st.lists(st.sampled_from(REMOTE), unique=True, max_size=6).map(sorted)
runs = st.lists(st.lists(st.tuples(nodes_of_batch, recorded_nodes), min_size=1, max_size=5), max_size=6)


@settings(max_examples=200, deadline=None)
@given(runs, st.integers(1, len(REMOTE)))
def test_a_held_row_is_the_row_as_it_is(planned: list[list[Batch]], capacity: int) -> None:
    copies = Copies(capacity)
    for run in planned:
        copies.fetch(*run)


@settings(max_examples=100, deadline=None)
@given(runs)
def test_with_a_slot_for_each_node_only_changed_rows_are_asked_for(planned: list[list[Batch]]) -> None:
    copies, fetched = Copies(len(REMOTE)), set[int]()
    for run in planned:
        for (nodes, recorded), held in zip(run, copies.fetch(*run), strict=True):
            assert held == [node for node in nodes if node in fetched]
            fetched |= set(nodes) & set(REMOTE)
            fetched -= set(recorded)


def test_rows_are_held_as_in_the_docstring() -> None:
    """From rank 0 of two, nodes 0 1 | 2 3."""
    slots = CacheSlots(4, 2, own=slice(0, 2))
    wanted = [numbers([2, 3])] * 4
    run = slots.plan_run(wanted, [numbers([2]), numbers([]), numbers([3]), numbers([])])
    assert run.is_held_U.tolist() == [False, False, False, True, True, True, True, False]
    assert run.row_K.tolist() == [1, 2, 7]


def test_the_rows_used_longest_ago_make_room() -> None:
    copies = Copies(3)
    assert copies.fetch(([0, 1, 2], []), ([0, 2], []), ([3], [])) == [[], [0, 2], []]
    assert copies.fetch(([0, 1, 2, 3], [])) == [[0, 2, 3]]


def test_rows_of_the_present_batch_stay() -> None:
    copies = Copies(2)
    assert copies.fetch(([0, 1], []), ([0, 1, 2, 3], []), ([0, 1, 2, 3], [])) == [[], [0, 1], [0, 1]]


def test_own_rows_are_not_kept() -> None:
    own = list(range(OWN.start, OWN.stop))
    assert Copies(8).fetch((own, []), (own, [])) == [[], []]


def test_a_row_about_to_change_takes_no_slot_from_others() -> None:
    copies = Copies(1)
    assert copies.fetch(([0], []), ([0, 1], [1]), ([0, 1], [])) == [[], [0], [0]]


def test_cleared_slots_hold_nothing() -> None:
    copies = Copies(4)
    copies.fetch(([0, 1, 2], []))
    copies.slots.clear()
    assert copies.fetch(([0, 1, 2, 3], []), ([0, 1, 2, 3], [])) == [[], [0, 1, 2, 3]]


@pytest.mark.parametrize("capacity", [1, 3, 8])
def test_a_dropped_row_is_asked_for_again(capacity: int) -> None:
    copies = Copies(capacity)
    copies.fetch(([0], []))
    copies.slots.drop(numbers([0, 1]))
    assert copies.fetch(([0], []), ([0], [])) == [[], [0]]
