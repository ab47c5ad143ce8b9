"""What our random samplers draw from the released code's random numbers, as golden files record it.

The file's draws are those of one call for the sources of the query batch, from RandomState(0). The released
code sorts draws by time and leaves the order of equal times open, so both are put in the order of edges.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tests.reference.golden_file import Array
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.neighbors.build import EventChunk, build_neighbor_index
from tpnet_dist.neighbors.index import IndexHistories, NeighborIndex
from tpnet_dist.neighbors.samplers import SAMPLERS, Queries, Slots

_UNIFORM, _WEIGHTED = "uniform", "time_interval_aware"
_COLUMNS = ("times", "edge_ids", "ids")
PROBABILITIES = f"sampler_{_WEIGHTED}/probabilities"
SAMPLED = tuple(f"sampler_{name}/neighbor_{column}" for name in (_UNIFORM, _WEIGHTED) for column in _COLUMNS)


@dataclass(frozen=True)
class _GivenDraws(Slots):
    """Draws of another generator."""

    fractions_BM: Tensor

    def fractions(self) -> Tensor:
        return self.fractions_BM.clone()


def sampled(golden: Mapping[str, Array]) -> dict[str, Array]:
    """What we draw, and the probabilities we draw by, under the names of the file."""
    scaling = float(golden[f"sampler_{_WEIGHTED}/time_scaling_factor"])
    index, count = _index_of(golden).weighted(scaling), golden[SAMPLED[0]].shape[1]
    queries = Queries(
        torch.from_numpy(golden["query_src"]), torch.from_numpy(golden["query_time"]), by_time=True
    )
    histories = IndexHistories.of(index, queries)
    sizes, found = histories.sizes().tolist(), {PROBABILITIES: _probabilities(index, histories)}
    for name in (_UNIFORM, _WEIGHTED):
        slots = _GivenDraws(count, SampleKey(0, 0), queries, _published_draws(name, sizes, count))
        place_BM = SAMPLERS[name](histories, slots)
        drawn = index.at(queries.node_B, place_BM, place_BM >= 0)
        edges = np.where(drawn.mask_BM, golden["edge_id"][drawn.events_BM.clamp(min=0).numpy()], 0)
        columns = (drawn.times_BM.numpy(), edges, drawn.ids_BM.clamp(min=0).numpy())
        keys = [f"sampler_{name}/neighbor_{column}" for column in _COLUMNS]
        found |= in_one_order(dict(zip(keys, columns, strict=True)))
    return found


def in_one_order(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The columns of each sampler sorted by time, then by edge."""
    sorted_arrays = {}
    for name in (_UNIFORM, _WEIGHTED):
        keys = [f"sampler_{name}/neighbor_{column}" for column in _COLUMNS]
        if keys[0] in arrays:
            order = np.lexsort((arrays[keys[1]], arrays[keys[0]]), axis=1)
            sorted_arrays |= {key: np.take_along_axis(arrays[key], order, axis=1) for key in keys}
    return sorted_arrays


def _index_of(golden: Mapping[str, Array]) -> NeighborIndex:
    src, dst = (golden[name].astype(np.int32) for name in ("src", "dst"))
    chunk = EventChunk(src, dst, golden["time"].astype(np.float64), np.arange(len(src)))
    return build_neighbor_index(lambda: [chunk], 0, len(golden["node_features"]))


def _published_draws(name: str, sizes: list[int], count: int) -> Tensor:
    """Fractions that choose what the generator chose; it is not asked for a node without history."""
    generator = np.random.RandomState(0)
    fractions = np.zeros((len(sizes), count))
    for row, size in enumerate(sizes):
        if size and name == _UNIFORM:
            fractions[row] = (generator.choice(size, count) + 0.5) / size
        elif size:
            fractions[row] = generator.random_sample(count)
    return torch.from_numpy(fractions)


def _probabilities(index: NeighborIndex, histories: IndexHistories) -> Array:
    """Of all interactions of one query after another."""
    found = [np.empty(0)]
    for begin, size in zip(histories.begin_B.tolist(), histories.sizes().tolist(), strict=True):
        until_M = index.weight_until(begin + 1 + torch.arange(size))
        share_M = torch.diff(until_M, prepend=torch.zeros(1, dtype=torch.float64)) / until_M[-1:]
        found.append(share_M.numpy())
    return np.concatenate(found)
