"""Samplers choose what their definitions say; given the released code's draws, they choose what it does."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.reference.golden_file import Array
from tests.support.shared_folder import shared_folder
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.neighbors.build import EventChunk, build_neighbor_index
from tpnet_dist.neighbors.index import IndexHistories, NeighborIndex, Neighbors
from tpnet_dist.neighbors.samplers import SAMPLERS, Queries, Slots

KEY = SampleKey(seed=3, epoch=1)


@dataclass(frozen=True)
class GivenDraws(Slots):
    """Draws of another generator."""

    fractions_BM: Tensor

    def fractions(self) -> Tensor:
        return self.fractions_BM.clone()


@cache
def golden_of(model: str) -> dict[str, Array]:
    with np.load(shared_folder() / "reference" / "baselines" / f"{model}_golden.npz") as stored:
        return {name: stored[name] for name in stored.files}


def index_of(golden: dict[str, Array]) -> NeighborIndex:
    src, dst = (golden[name].astype(np.int32) for name in ("src", "dst"))
    chunk = EventChunk(src, dst, golden["time"], np.arange(len(src)))
    return build_neighbor_index(lambda: [chunk], 0, len(golden["node_features"]))


def source_queries(golden: dict[str, Array]) -> Queries:
    return Queries(
        torch.from_numpy(golden["query_src"]), torch.from_numpy(golden["query_time"]), by_time=True
    )


def sampled(name: str, index: NeighborIndex, queries: Queries, fractions_BM: Tensor) -> Neighbors:
    histories = IndexHistories.of(index, queries)
    place_BM = SAMPLERS[name](histories, GivenDraws(fractions_BM.shape[1], KEY, queries, fractions_BM))
    return index.at(queries.node_B, place_BM, place_BM >= 0)


def assert_published(found: Neighbors, golden: dict[str, Array], name: str) -> None:
    """The released code sorts by time and leaves the order of equal times open."""
    wanted = [golden[f"sampler_{name}/neighbor_{key}"] for key in ("times", "edge_ids", "ids")]
    edge_ids = np.where(found.mask_BM, found.events_BM + 1, 0)
    columns = [found.times_BM.numpy(), edge_ids, found.ids_BM.clamp(min=0).numpy()]
    for ours, theirs in zip(in_one_order(columns), in_one_order(wanted), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def in_one_order(columns: list[Array]) -> list[Array]:
    order = np.lexsort((columns[1], columns[0]), axis=1)
    return [np.take_along_axis(column, order, axis=1) for column in columns]


@pytest.mark.parametrize("model", ["tgat", "cawn"])
def test_uniform_draws_what_the_released_code_draws(model: str) -> None:
    golden = golden_of(model)
    index, queries, count = index_of(golden), source_queries(golden), int(golden["num_neighbors"])
    size_B = IndexHistories.of(index, queries).sizes().numpy()
    generator = np.random.RandomState(0)
    fractions = np.zeros((len(size_B), count))
    for row in np.flatnonzero(size_B):
        fractions[row] = (generator.choice(size_B[row], count) + 0.5) / size_B[row]
    assert_published(sampled("uniform", index, queries, torch.from_numpy(fractions)), golden, "uniform")


@pytest.mark.parametrize("model", ["tgat", "cawn"])
def test_time_interval_aware_has_the_released_probabilities_and_draws(model: str) -> None:
    golden, name = golden_of(model), "time_interval_aware"
    count, scaling = int(golden["num_neighbors"]), float(golden[f"sampler_{name}/time_scaling_factor"])
    index, queries = index_of(golden).weighted(scaling), source_queries(golden)
    histories = IndexHistories.of(index, queries)
    published, offsets = golden[f"sampler_{name}/probabilities"], golden[f"sampler_{name}/offsets"]
    generator = np.random.RandomState(0)
    fractions = np.zeros((len(queries.node_B), count))
    for row, size in enumerate(histories.sizes().tolist()):
        until_M = index.weight_until(histories.begin_B[row] + 1 + torch.arange(size))
        share_M = torch.diff(until_M, prepend=torch.zeros(1)) / until_M[-1:]
        theirs = published[offsets[row] : offsets[row + 1]]
        np.testing.assert_allclose(share_M.numpy(), theirs, rtol=1e-6)
        fractions[row] = generator.random_sample(count) if size else 0
    assert_published(sampled(name, index, queries, torch.from_numpy(fractions)), golden, name)


# ---- small logs of our own ---------------------------------------------------------------------------------


def random_index(num_events: int = 300, num_nodes: int = 9) -> tuple[EventChunk, NeighborIndex]:
    """With ties and self-loops; the last node meets nobody."""
    draw = np.random.default_rng(0)
    src, dst = draw.integers(0, num_nodes - 1, (2, num_events)).astype(np.int32)
    chunk = EventChunk(src, dst, np.sort(draw.integers(0, 90, num_events)), np.arange(num_events))
    return chunk, build_neighbor_index(lambda: [chunk], 0, num_nodes)


def times_of(chunk: EventChunk, node: int, before: int) -> list[int]:
    ends = zip(chunk.src, chunk.dst, chunk.time, strict=True)
    return [int(time) for *both, time in ends for end in both if end == node and time < before]


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_interactions_before_a_time_are_strictly_before_it(dtype: type) -> None:
    chunk, _ = random_index()
    timed = EventChunk(chunk.src, chunk.dst, (chunk.time - 40).astype(dtype), chunk.index)
    index = build_neighbor_index(lambda: [timed], 0, 9)
    node_B = torch.arange(9).repeat(92)
    before_B = torch.arange(-41, 51).repeat_interleave(9)
    found = index.sample(
        Queries(node_B, before_B.to(index.time_dtype), by_time=True), SAMPLERS["recent"], count=80, key=KEY
    )
    for row, (node, before) in enumerate(zip(node_B.tolist(), before_B.tolist(), strict=True)):
        wanted = times_of(timed, node, before)[-80:]
        assert found.times_BM[row][found.mask_BM[row]].tolist() == wanted


def literal_weights(times: list[int], scaling: float) -> Array:
    """As the released code defines them: exp of a ratio of exponentials."""
    power = np.exp(scaling * (np.array(times) - times[-1]))
    return np.exp(power / power.cumsum())


def test_each_interaction_is_drawn_as_often_as_its_weight_says() -> None:
    chunk, plain = random_index()
    index, queries, scaling = plain.weighted(0.1), 20_000, 0.1
    node_B = torch.full((queries,), 3)
    asked = Queries(node_B, torch.full((queries,), 200), torch.arange(queries))
    found = index.sample(asked, SAMPLERS["time_interval_aware"], count=10, key=KEY)
    assert (found.events_BM.diff(dim=1) >= 0).all(), "in order of time"
    mine = np.flatnonzero((chunk.src[:200] == 3) | (chunk.dst[:200] == 3))
    entries = np.sort(np.concatenate([np.flatnonzero(end[:200] == 3) for end in (chunk.src, chunk.dst)]))
    weight = literal_weights(chunk.time[entries].tolist(), scaling)
    share = np.bincount(entries, weight, 200)[mine] / weight.sum()
    drawn = found.events_BM.flatten().bincount(minlength=200).numpy()
    assert drawn.sum() == drawn[mine].sum() == 10 * queries
    expected = share * 10 * queries
    assert ((drawn[mine] - expected) ** 2 / expected).sum() < 2.2 * len(mine)


def test_a_node_that_met_nobody_draws_nobody() -> None:
    _, plain = random_index()
    asked = Queries(torch.tensor([8, 0]), torch.tensor([300, 0]), torch.arange(2))
    for name, sampler in SAMPLERS.items():
        found = plain.weighted(0.1).sample(asked, sampler, count=4, key=KEY)
        assert not found.mask_BM.any(), name
        assert (found.times_BM == 0).all()
