"""The neighbour index against a dictionary of lists, the published implementation and its own promises."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.sentences import refused
from tests.support.shared_folder import shared_folder
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.neighbors.build import MAX_EVENTS, EventChunk, build_neighbor_index
from tpnet_dist.neighbors.index import NeighborIndex, Neighbors
from tpnet_dist.neighbors.samplers import SAMPLERS, Queries

NUM_NODES = 6
KEY = SampleKey(seed=3, epoch=1)


@dataclass(frozen=True)
class Log:
    src: np.ndarray
    dst: np.ndarray
    time: np.ndarray
    index: np.ndarray

    def chunks(self, size: int) -> Callable[[], Iterator[EventChunk]]:
        def read() -> Iterator[EventChunk]:
            for start in range(0, len(self.index), size):
                rows = slice(start, start + size)
                yield EventChunk(self.src[rows], self.dst[rows], self.time[rows], self.index[rows])

        return read


def log_of(ends, times, *, first_node: int = 0, gaps=()) -> Log:
    src, dst = np.array(ends, np.int64).reshape(-1, 2).T
    index = np.arange(len(times)) + np.cumsum([*gaps, *[0] * len(times)][: len(times)]).astype(np.int64)
    return Log((src + first_node).astype(np.int32), (dst + first_node).astype(np.int32), times, index)


def spelled_out(log: Log, nodes, times, count: int) -> list[list[tuple[int, int, float]]]:
    """The definition: everything a node did before t, its last `count`, padding in front."""
    history = defaultdict(list)
    for src, dst, time, index in zip(*map(np.ndarray.tolist, vars(log).values()), strict=True):
        history[src].append((dst, index, time))
        history[dst].append((src, index, time))
    answers = []
    for node, asked in zip(nodes, times, strict=True):
        earlier = [entry for entry in history[node] if entry[2] < asked][-count:]
        answers.append([(-1, -1, 0)] * (count - len(earlier)) + earlier)
    return answers


def as_lists(found: Neighbors) -> list[list[tuple[int, int, float]]]:
    columns = (found.ids_BM.tolist(), found.events_BM.tolist(), found.times_BM.tolist())
    return [list(zip(*row, strict=True)) for row in zip(*columns, strict=True)]


def bounds(log: Log, times) -> torch.Tensor:
    """From times to event numbers, also where the numbers have gaps."""
    row = torch.searchsorted(torch.from_numpy(log.time), torch.as_tensor(times, dtype=_dtype(log)))
    end = log.index[-1:] + 1 if len(log.index) else np.zeros(1, np.int64)
    return torch.from_numpy(np.concatenate((log.index, end)))[row]


def _dtype(log: Log) -> torch.dtype:
    return torch.from_numpy(log.time).dtype


WHOLE_TIMES = st.one_of(st.integers(0, 4), st.integers(-(2**62), 2**62), st.integers(10**9, 10**9 + 200_000))
REAL_TIMES = st.one_of(
    st.sampled_from([0.0, -0.0, 0.5]), st.floats(-1e300, 1e300), st.floats(1.2e9, 1.6e9), st.floats(0, 1)
)


@st.composite
def logs(draw) -> Log:
    """Ties, self-loops, repeats, nodes that never appear; ids and numbers small or as large as can be."""
    ends = draw(st.lists(st.tuples(*[st.integers(0, NUM_NODES - 2)] * 2), max_size=40))
    kind, dtype = draw(st.sampled_from([(WHOLE_TIMES, np.int64), (REAL_TIMES, np.float64)]))
    times = draw(st.lists(kind, min_size=len(ends), max_size=len(ends)))
    first_node = draw(st.sampled_from([0, 1000, 2**31 - 1 - NUM_NODES]))
    gaps = draw(st.sampled_from([(), (7,), (0, 5, 1), (2**31,), (2**31, 2**31 - 50)]))
    return log_of(ends, np.sort(np.array(times, dtype)), first_node=first_node, gaps=gaps)


def first_node_of(log: Log) -> int:
    smallest = int(min(log.src.min(initial=2**31 - 1), log.dst.min(initial=2**31 - 1)))
    return next((base for base in (2**31 - 1 - NUM_NODES, 1000) if smallest >= base), 0)


def all_queries(log: Log) -> tuple[list[int], list[float]]:
    first = first_node_of(log)
    times = sorted({*log.time.tolist(), *(log.time[:1] - 1).tolist(), *(log.time[-1:] + 1).tolist(), 0})
    pairs = [(node, time) for time in times for node in range(first, first + NUM_NODES)]
    return [node for node, _ in pairs], [time for _, time in pairs]


@settings(deadline=None, max_examples=300)
@given(log=logs(), size=st.integers(1, 50), count=st.integers(1, 5))
@example(log=log_of([(0, 0), (0, 0), (0, 1)], np.array([1, 1, 2])), size=2, count=5)
def test_recent_is_what_the_definition_says(log: Log, size: int, count: int) -> None:
    first = first_node_of(log)
    index = build_neighbor_index(log.chunks(size), first, first + NUM_NODES)
    nodes, times = all_queries(log)
    found = index.recent(torch.tensor(nodes), bounds(log, times), count=count)
    assert as_lists(found) == spelled_out(log, nodes, times, count)
    assert torch.equal(found.mask_BM, found.ids_BM != -1)
    assert index.num_entries == 2 * len(log.index)


@settings(deadline=None)
@given(log=logs(), cuts=st.lists(st.integers(0, NUM_NODES), max_size=3))
def test_blocks_of_nodes_answer_as_one_index(log: Log, cuts: list[int]) -> None:
    first = first_node_of(log)
    whole = build_neighbor_index(log.chunks(9), first, first + NUM_NODES)
    nodes, times = map(torch.tensor, all_queries(log))
    before, query = bounds(log, times), torch.arange(len(nodes))
    recent = whole.recent(nodes, before, count=3)
    drawn = uniform(whole, nodes, before, query, count=3, key=KEY)
    entries = 0
    for start, stop in pairwise([0, *sorted(cuts), NUM_NODES]):
        block = build_neighbor_index(log.chunks(7), first + start, first + stop)
        own = (nodes >= first + start) & (nodes < first + stop)
        assert_rows(recent, own, block.recent(nodes[own], before[own], count=3))
        assert_rows(drawn, own, uniform(block, nodes[own], before[own], query[own], count=3, key=KEY))
        entries += block.num_entries
    assert entries == whole.num_entries


def assert_rows(whole: Neighbors, own: torch.Tensor, part: Neighbors) -> None:
    for name, column in vars(whole).items():
        assert torch.equal(column[own], getattr(part, name)), name


@settings(deadline=None)
@given(log=logs(), count=st.integers(1, 5))
def test_uniform_fills_every_slot_from_the_earlier_events_in_order(log: Log, count: int) -> None:
    first = first_node_of(log)
    index = build_neighbor_index(log.chunks(10), first, first + NUM_NODES)
    nodes, times = all_queries(log)
    query = torch.arange(len(nodes))
    found = uniform(index, torch.tensor(nodes), bounds(log, times), query, count=count, key=KEY)
    for drawn, history in zip(
        as_lists(found), spelled_out(log, nodes, times, 2 * len(log.index) + 1), strict=True
    ):
        earlier = [entry for entry in history if entry[0] != -1] or [(-1, -1, 0)]
        assert all(entry in earlier for entry in drawn)
        assert [event for _, event, _ in drawn] == sorted(event for _, event, _ in drawn)


def uniform(
    index: NeighborIndex,
    node_B: torch.Tensor,
    before_event_B: torch.Tensor,
    query_B: torch.Tensor,
    *,
    count: int,
    key: SampleKey,
) -> Neighbors:
    queries = Queries(node_B, before_event_B, query_B)
    return index.sample(queries, SAMPLERS["uniform"], count=count, key=key)


def star(leaves: int) -> NeighborIndex:
    """Node 0 meets each other node once, in turn."""
    log = log_of([(0, leaf) for leaf in range(1, leaves + 1)], np.arange(leaves))
    return build_neighbor_index(log.chunks(64), 0, leaves + 1)


def test_uniform_draws_each_interaction_equally_often() -> None:
    leaves, queries = 50, 20_000
    node = torch.zeros(queries, dtype=torch.int64)
    before = torch.full_like(node, 40)
    found = uniform(star(leaves), node, before, torch.arange(queries), count=20, key=KEY)
    times_drawn = found.ids_BM.flatten().bincount(minlength=leaves + 1)
    expected = queries * 20 / 40
    chi_square = ((times_drawn[1:41] - expected) ** 2 / expected).sum().item()
    assert chi_square < 80  # 39 degrees of freedom: passed once in 10,000 keys
    assert times_drawn[41:].sum() == 0


@pytest.mark.parametrize("other", [SampleKey(seed=4, epoch=1), SampleKey(seed=3, epoch=2)])
def test_uniform_depends_on_seed_epoch_and_query_number_only(other: SampleKey) -> None:
    index, query = star(1000), torch.arange(8)
    node, before = torch.zeros(8, dtype=torch.int64), torch.full((8,), 1000)
    drawn = uniform(index, node, before, query, count=20, key=KEY).ids_BM
    again = uniform(index, node, before, query.flip(0), count=20, key=KEY).ids_BM.flip(0)
    elsewhere = uniform(index, node, before, query, count=20, key=other).ids_BM
    assert torch.equal(drawn, again)
    assert (drawn == elsewhere).float().mean() < 0.1
    assert len({tuple(row) for row in drawn.tolist()}) == 8


@pytest.mark.parametrize("name", ["uci", "canparl"])
def test_recent_finds_the_neighbours_of_the_published_implementation(name: str) -> None:
    with np.load(shared_folder() / "reference" / f"{name}_golden.npz") as golden:
        log = Log(golden["src"], golden["dst"], golden["time"], golden["edge_id"] - 1)
        nodes = np.concatenate([golden["query_src"], golden["query_dst"], golden["query_neg"]])
        times = np.tile(golden["query_time"], 3)
        expected = [golden[f"neighbor_{key}"] for key in ("ids", "edge_ids", "times")]
        count = int(golden["num_neighbors"])
    index = build_neighbor_index(log.chunks(1000), 0, int(max(log.src.max(), log.dst.max())) + 1)
    found = index.recent(torch.from_numpy(nodes), bounds(log, times), count=count)
    answers = (found.ids_BM.clamp(min=0), found.events_BM + 1, found.times_BM)
    for answer, published in zip(answers, expected, strict=True):
        np.testing.assert_array_equal(answer.numpy(), published)
    assert index.bytes() <= 12 * index.num_entries


@pytest.mark.parametrize("num_blocks", [1, 4])
@pytest.mark.parametrize("first_event", [0, 2**27], ids=["few", "many"])
@pytest.mark.parametrize("unit", [1, 1e3, 1e6, 1e9, 1e-3], ids=["s", "ms", "us", "ns", "float"])
def test_an_entry_takes_twelve_bytes_at_most_in_any_unit_of_time(
    unit: float, first_event: int, num_blocks: int
) -> None:
    """Ten years of events, 50 entries per node; as if of a short log and of one that numbers many events."""
    generator = np.random.default_rng(0)
    events, nodes = 100_000, 4_000
    seconds = np.sort(generator.uniform(1.2e9, 1.5e9, events))
    times = (seconds * unit).astype(np.int64) if unit >= 1 else seconds
    log = log_of(generator.integers(0, nodes, (events, 2)), times, gaps=(first_event,))
    for first in range(0, nodes, nodes // num_blocks):
        index = build_neighbor_index(log.chunks(10_000), first, first + nodes // num_blocks)
        assert index.bytes() <= 12 * index.num_entries
    asked = index.recent(torch.arange(first, nodes), bounds(log, times[-1:]).expand(nodes - first), count=20)
    assert (asked.times_BM.numpy() == times[asked.events_BM - first_event])[asked.mask_BM].all()


def test_a_query_needs_no_value_on_the_host() -> None:
    """Tensors without values stand for a device that must not be waited for."""
    found = star(5)
    tensors = {name: each for name, each in vars(found).items() if isinstance(each, torch.Tensor)}
    index = replace(found, **{name: tensor.to("meta") for name, tensor in tensors.items()})
    node = torch.zeros(3, dtype=torch.int64, device="meta")
    assert index.recent(node, node, count=4).ids_BM.shape == (3, 4)
    assert uniform(index, node, node, node, count=4, key=KEY).times_BM.shape == (3, 4)


def test_a_bound_beyond_the_last_indexed_event_sees_everything() -> None:
    found = star(5).recent(torch.tensor([0]), torch.tensor([2**40]), count=7)
    assert found.ids_BM.tolist() == [[-1, -1, 1, 2, 3, 4, 5]]


@pytest.mark.parametrize("node", [-1, 6])
def test_a_node_of_another_block_is_refused(node: int) -> None:
    with pytest.raises(IndexError):
        star(5).recent(torch.tensor([node]), torch.tensor([1]), count=2)


def test_a_log_with_too_many_events_is_refused() -> None:
    with refused():
        build_neighbor_index(log_of([(0, 1)], np.array([5]), gaps=(MAX_EVENTS,)).chunks(1), 0, 2)


def test_streams_that_are_out_of_order_or_change_between_passes_are_noticed() -> None:
    log = log_of([(0, 1), (1, 1)], np.array([1, 2]))
    for times in (np.array([2, 1]), np.array([2.0, np.nan])):
        for chunk_size in (1, 2):
            with pytest.raises(AssertionError, match="times out of order"):
                build_neighbor_index(log_of([(0, 1), (1, 1)], times).chunks(chunk_size), 0, 2)
    with pytest.raises(AssertionError, match="negative id"):
        build_neighbor_index(log_of([(0, -1)], np.array([2])).chunks(1), 0, 2)
    passes = iter([log.chunks(2)(), log.chunks(2)(), log.chunks(1)()])
    build_neighbor_index(lambda: next(passes), 0, 2)
    with pytest.raises(AssertionError, match="other events"):
        shrinking = iter([log.chunks(2)(), [next(log.chunks(1)())]])
        build_neighbor_index(lambda: next(shrinking), 0, 2)
