"""Samplers choose what their definitions say; given the released code's draws, they choose what it does."""

import numpy as np
import pytest
import torch

from tests.reference.golden_file import Array
from tests.reference.golden_samplers import PROBABILITIES, SAMPLED, in_one_order, sampled
from tests.support.shared_folder import shared_folder
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.neighbors.build import EventChunk, build_neighbor_index
from tpnet_dist.neighbors.index import NeighborIndex
from tpnet_dist.neighbors.samplers import SAMPLERS, Queries

KEY = SampleKey(seed=3, epoch=1)


@pytest.mark.parametrize("model", ["tgat", "cawn"])
def test_draws_and_probabilities_are_those_of_the_released_code(model: str) -> None:
    with np.load(shared_folder() / "reference" / "baselines" / f"{model}_golden.npz") as stored:
        golden = dict(stored)
    found, wanted = sampled(golden), {**golden, **in_one_order(golden)}
    np.testing.assert_allclose(found[PROBABILITIES], golden[PROBABILITIES], rtol=1e-6)
    for key in SAMPLED:
        np.testing.assert_array_equal(found[key], wanted[key], err_msg=key)


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
