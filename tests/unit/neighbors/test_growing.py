"""An index that grows gives what one index of all events gives, however events were added."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.neighbors import growing as growing_neighbors
from tpnet_dist.neighbors.build import EventChunk, build_neighbor_index
from tpnet_dist.neighbors.growing import GrowingNeighbors
from tpnet_dist.neighbors.index import NeighborIndex, NeighborLookup, Neighbors
from tpnet_dist.neighbors.samplers import SAMPLERS, Queries

EVENTS, NODES, KNOWN_NODES = 400, 14, 10
"""The last four nodes have no event before the index is made."""


def events(start: int, stop: int, dtype: type = np.int64) -> EventChunk:
    draw = np.random.default_rng(3)
    src, dst = draw.integers(0, NODES, (2, EVENTS)).astype(np.int32)
    src[:150] %= KNOWN_NODES
    dst[:150] %= KNOWN_NODES
    time = np.sort(draw.integers(10, 10 + EVENTS // 4, EVENTS)).astype(dtype)
    here = slice(start, stop)
    return EventChunk(src[here], dst[here], time[here], np.arange(start, stop))


def index_of(start: int, stop: int, num_nodes: int, dtype: type = np.int64) -> NeighborIndex:
    return build_neighbor_index(lambda: [events(start, stop, dtype)], 0, num_nodes).weighted(0.05)


def grown(first: int, sizes: Iterator[int] | list[int], dtype: type = np.int64) -> GrowingNeighbors:
    neighbors = GrowingNeighbors(
        index_of(0, first, KNOWN_NODES, dtype), first_event=first, time_dtype=np.dtype(dtype).name
    )
    start = first
    for size in sizes:
        chunk = events(start, min(start + size, EVENTS), dtype)
        neighbors.append(chunk.src.astype(np.int64), chunk.dst.astype(np.int64), chunk.time)
        start += len(chunk.index)
    assert start == EVENTS
    return neighbors


def look_up(lookup: NeighborLookup) -> list[Neighbors]:
    """Every node before every event and before every time, by every sampler."""
    node_B = torch.arange(NODES).repeat(EVENTS + 1)
    number_B = torch.arange(len(node_B))
    before_B = number_B // NODES
    by_event = Queries(node_B, before_B, number_B)
    by_time = Queries(node_B, before_B // 3, number_B, by_time=True)
    return [
        lookup.sample(queries, sampler, count=6, key=SampleKey(5, 2))
        for queries in (by_event, by_time)
        for sampler in SAMPLERS.values()
    ]


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("most_fresh", [0, 50, 8192])
@pytest.mark.parametrize(("first", "size"), [(150, 7), (149, 250), (0, 37)])
def test_it_answers_as_one_index_of_all_events(
    monkeypatch: pytest.MonkeyPatch, dtype: type, most_fresh: int, first: int, size: int
) -> None:
    monkeypatch.setattr(growing_neighbors, "_MOST_FRESH", most_fresh)
    found = look_up(grown(first, [size] * -(-(EVENTS - first) // size), dtype))
    for ours, wanted in zip(found, look_up(index_of(0, EVENTS, NODES, dtype)), strict=True):
        assert torch.equal(ours.mask_BM, wanted.mask_BM)
        assert torch.equal(ours.ids_BM, wanted.ids_BM)
        assert torch.equal(ours.events_BM, wanted.events_BM)
        assert torch.equal(ours.times_BM, wanted.times_BM)


def test_without_later_events_it_is_the_index() -> None:
    neighbors = GrowingNeighbors(index_of(0, EVENTS, NODES), first_event=EVENTS, time_dtype="int64")
    for ours, wanted in zip(look_up(neighbors), look_up(index_of(0, EVENTS, NODES)), strict=True):
        assert torch.equal(ours.ids_BM, wanted.ids_BM) and torch.equal(ours.times_BM, wanted.times_BM)


def test_a_self_loop_gives_two_entries() -> None:
    neighbors = GrowingNeighbors(index_of(0, 0, 2), first_event=0, time_dtype="int64")
    neighbors.append(np.array([1]), np.array([1]), np.array([4]))
    found = neighbors.recent(torch.tensor([1]), torch.tensor([1]), count=3)
    assert found.ids_BM.tolist() == [[-1, 1, 1]]
    assert found.times_BM.tolist() == [[0, 4, 4]]


def test_the_longest_history_is_that_of_one_index_of_all_events() -> None:
    whole, several = index_of(0, EVENTS, NODES), grown(250, [100, 50])
    node_B = torch.arange(NODES).repeat(40)
    before_B = torch.arange(len(node_B)) * EVENTS // len(node_B)
    asked = Queries(node_B, before_B), torch.arange(len(node_B)) % 7, 8
    assert torch.equal(several.longest(*asked), whole.longest(*asked))
    assert several.longest_of_all() == whole.max_degree
    none_later = grown(EVENTS, [])
    assert none_later.longest_of_all() == none_later.index.max_degree
