"""Turn timestamp batches into requests to the memory: negatives, neighbours, who needs which rows.

Nothing here needs a row, so all of it runs ahead of the memory, in the pipeline's thread.

Shape letters: B events of a rank's slice, S ends of an event, M neighbours of an end, Q = B·S.
"""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.profiler import record_function

from tpnet_dist.events.batch_plan import BatchPlan
from tpnet_dist.events.grown_features import FeatureRows
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.view import EventView, SelectedEvents
from tpnet_dist.keyed_draws import SampleKey
from tpnet_dist.memory.neighbors import NeighborLookup, Neighbors
from tpnet_dist.memory.pipeline import MemoryRequest
from tpnet_dist.ranks.portions import Portions
from tpnet_dist.training.event_batches import EventBatch, batches_to_record
from tpnet_dist.training.links import LinkBlock, PlannedLinks

MAX_ENDS = 1 << 20

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True)
class NegativeEnds:
    """What a slice's events are told apart from."""

    src_B: Ids | None
    """None: the source of the event itself."""
    dst_BC: Ids


class Negatives(Protocol):
    def draw(self, batch: SelectedEvents, here: slice) -> NegativeEnds:
        """For the events `here` of a whole batch; the same whichever rank asks."""


@dataclass(frozen=True, kw_only=True)
class LinkPlanner:
    """How a part of the log is asked about."""

    log: EventLog
    portions: Portions
    neighbors: NeighborLookup
    num_neighbors: int
    sampling: Literal["recent", "uniform"]
    sample_key: SampleKey
    negatives: Sequence[Negatives]
    padding_node: int | None = None
    """The node that stands in empty neighbour slots and is taken for a neighbour there, as in the released
    code, which also reads rows at the last recorded time; None: empty slots are left out."""
    later_features: FeatureRows | None = None
    """Edge features, where there are more events than in the log; None: the log's."""

    def requests(
        self,
        view: EventView,
        plan: BatchPlan,
        *,
        from_batch: int = 0,
        record: bool = True,
        memory_time: float = 0.0,
        events_per_piece: int | None = None,
    ) -> Iterator[MemoryRequest[PlannedLinks]]:
        """For each batch one, or one for each piece of it; a batch is recorded with its last.

        `memory_time`: of the last event that is recorded already.
        """
        _compute_alone()
        for batch in batches_to_record(self.log, view, plan, from_batch):
            *pieces, last = self._pieces(len(batch.events), events_per_piece)
            for piece in pieces:
                planned = self._plan(batch, piece, memory_time)
                yield MemoryRequest(batch.events, planned.nodes(), planned, record=False)
            planned = self._plan(batch, last, memory_time)
            if not record:
                yield MemoryRequest(batch.events, planned.nodes(), planned, record=False)
                continue
            yield MemoryRequest(
                batch.events, planned.nodes(), planned, record=batch.record_alone, group=batch.group
            )
            memory_time = batch.last_time if batch.is_recorded else memory_time

    def _pieces(self, num_events: int, events_per_piece: int | None) -> list[slice]:
        """Of this rank's slice, none in two portions unless it is the whole slice; as many on every rank,
        though some may be empty."""
        portions, whole = self.portions, self.portions.slice_of(num_events)
        if events_per_piece is None or portions.largest_slice(num_events) <= events_per_piece:
            return [whole]
        mine, none = portions.mine(num_events), slice(whole.stop, whole.stop)
        mine += [none] * (portions.most_per_rank - len(mine))
        return [
            slice(min(start, portion.stop), min(start + events_per_piece, portion.stop))
            for portion in mine
            for start in range(portion.start, portion.start + portions.largest(num_events), events_per_piece)
        ]

    def _plan(self, batch: EventBatch, here: slice, memory_time: float) -> PlannedLinks:
        return self.plan(batch.selected, batch.events.time_B, here, memory_time)

    @record_function("plan")
    def plan(
        self, selected: SelectedEvents, seconds: Tensor, here: slice, memory_time: float
    ) -> PlannedLinks:
        """The events `here` of some that need not be in the log, at `seconds` since its first event."""
        mine = selected[here]
        time_B = seconds[here]
        read_time_B = time_B if self.padding_node is None else torch.full_like(time_B, memory_time)
        links: list[tuple[Ids, Ids]] = [(mine.columns.src, mine.columns.dst[:, None])]
        for negatives in self.negatives:
            drawn = negatives.draw(selected, here)
            if drawn.src_B is None:
                links[0] = (links[0][0], np.concatenate([links[0][1], drawn.dst_BC], axis=1))
            else:
                links.append((drawn.src_B, drawn.dst_BC))
        blocks = tuple(self._block(mine, *ends, number) for number, ends in enumerate(links))
        portions = self._portions(len(selected), here)
        return PlannedLinks(torch.from_numpy(mine.index), read_time_B, blocks, portions)

    def _portions(self, num_events: int, here: slice) -> tuple[slice, ...]:
        """What of each portion of this rank is `here`."""
        start, stop, _ = here.indices(num_events)
        return tuple(
            slice(min(max(portion.start, start), stop) - start, min(max(portion.stop, start), stop) - start)
            for portion in self.portions.mine(num_events)
        )

    def _block(self, mine: SelectedEvents, src_B: Ids, dst_BC: Ids, number: int) -> LinkBlock:
        ends_BS = torch.from_numpy(np.column_stack([src_B, dst_BC]).astype(np.int64))
        found = self._find(mine, ends_BS, number)
        shape = (*ends_BS.shape, self.num_neighbors)
        mask_BSM, ids_BSM = found.mask_BM.view(shape), found.ids_BM.view(shape)
        # without a padding node any node of the link serves, since empty slots are left out
        padding = ends_BS[:, :, None] if self.padding_node is None else torch.tensor(self.padding_node)
        # a copy, since Arrow's buffers may not be written to
        since_BSM = torch.tensor(mine.columns.time).view(-1, 1, 1) - found.times_BM.view(shape)
        return LinkBlock(
            ends_BS=ends_BS,
            neighbors_BSM=torch.where(mask_BSM, ids_BSM, padding),
            mask_BSM=mask_BSM,
            elapsed_BSM=since_BSM.double().mul_(self.log.manifest.seconds_per_tick).float(),
            edge_features_BSME=self._edge_features(found.events_BM.view(shape), mask_BSM),
        )

    def _find(self, mine: SelectedEvents, ends_BS: Tensor, number: int) -> Neighbors:
        num_ends = ends_BS.shape[1]
        before_Q = torch.from_numpy(mine.moment).repeat_interleave(num_ends)
        if self.sampling == "recent":
            return self.neighbors.recent(ends_BS.flatten(), before_Q, count=self.num_neighbors)
        assert num_ends <= MAX_ENDS // 8 and number < 8, (num_ends, number)
        query_BS = torch.from_numpy(mine.index)[:, None] * MAX_ENDS + torch.arange(num_ends) * 8 + number
        return self.neighbors.uniform(
            ends_BS.flatten(), before_Q, query_BS.flatten(), count=self.num_neighbors, key=self.sample_key
        )

    def _edge_features(self, events_BSM: Tensor, mask_BSM: Tensor) -> Tensor | None:
        features = self.log.edge_features if self.later_features is None else self.later_features
        if features is None:
            return None
        chosen = features[events_BSM.clamp(min=0).numpy()]
        return torch.from_numpy(chosen).mul_(mask_BSM[..., None])


def _compute_alone() -> None:
    """Small operations gain nothing from several threads, and beside the model they would wait for cores."""
    if threading.current_thread() is not threading.main_thread():
        torch.set_num_threads(1)
