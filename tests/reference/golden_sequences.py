"""Sequences of DyGFormer as its golden file has them: an end, its latest interactions, then padding."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import torch

from tests.reference.golden_file import Array
from tests.reference.golden_model import to_ours
from tpnet_dist.batches.drafts import with_longest_histories
from tpnet_dist.batches.links import PlannedLinks
from tpnet_dist.batches.planner import LinkPlanner
from tpnet_dist.distributed.world import World
from tpnet_dist.events.shards import EventColumns
from tpnet_dist.events.view import SelectedEvents
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.memory.event_run import BatchEvents
from tpnet_dist.models.dygformer.config import DyGFormerConfig
from tpnet_dist.neighbors.index import NeighborLookup
from tpnet_dist.neighbors.samplers import SAMPLERS, Queries

_KINDS = ("neighbor_ids", "neighbor_edge_ids", "neighbor_times")
_SIDES = {"positive_src": "src", "positive_dst": "dst", "negative_src": "src", "negative_dst": "neg"}


def is_sequence(key: str) -> bool:
    return key.partition("/")[0] in _KINDS and "/" in key


def padded_sequences(
    golden: Mapping[str, Array], neighbors: NeighborLookup, world: World, settings: Any
) -> dict[str, Array]:
    """Of this rank's share of the query batch, by look-ups that all ranks take part in."""
    assert isinstance(settings, DyGFormerConfig)
    before, times = np.searchsorted(golden["time"], golden["query_time"]), golden["query_time"]
    mine = np.array_split(np.arange(len(times)), world.num_ranks)[world.rank]
    arrays: dict[str, Array] = {}
    for side, end in _SIDES.items():
        nodes = to_ours(golden[f"query_{end}"])[mine]
        queries = Queries(torch.from_numpy(nodes.astype(np.int64)), torch.from_numpy(before[mine]))
        most = settings.sequence_length - 1
        found = neighbors.sample(queries, SAMPLERS["recent"], count=most, key=SampleKey(0, 0))
        one_group = torch.zeros(len(mine), dtype=torch.int64)
        longest = min(most, int(neighbors.longest(queries, one_group, 1)))
        length = -(-(1 + longest) // settings.patch_size) * settings.patch_size
        columns = (
            (nodes + 1, found.ids_BM.numpy() + 1),
            (np.zeros(len(mine)), golden["edge_id"][found.events_BM.clamp(min=0).numpy()]),
            (times[mine], found.times_BM.numpy()),
        )
        mask = found.mask_BM.numpy()
        for kind, (own, others) in zip(_KINDS, columns, strict=True):
            padded = np.zeros((len(mine), length), golden[f"{kind}/{side}"].dtype)
            padded[:, 0] = own
            for row, (there, values) in enumerate(zip(mask, others, strict=True)):
                padded[row, 1 : 1 + there.sum()] = values[there]
            arrays[f"{kind}/{side}"] = padded
    return arrays


def planned_rows(planner: LinkPlanner, batch: SelectedEvents, rows: Array) -> PlannedLinks:
    """Some events of a batch as if they were all of it; this rank's slice."""
    columns = EventColumns(*(getattr(batch.columns, field.name)[rows] for field in fields(EventColumns)))
    chosen = SelectedEvents(batch.index[rows], batch.time_group[rows], columns)
    lookup, here = planner.lookup, planner.slices.slice_of(len(rows))
    draft = planner._draft(chosen, here, 0.0, BatchEvents.none())
    [[draft]] = with_longest_histories([[draft]], lookup.neighbors, lookup.needs.neighbors)
    [request] = planner._finish([draft])
    return request.note
