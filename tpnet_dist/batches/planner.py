"""Turn timestamp batches into requests to the memory: negatives, neighbours, who needs which rows.

Nothing here needs a row, so all of it runs ahead of the memory, in the pipeline's thread.

Q = B·S queries are looked up.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from tpnet_dist.batches.drafts import FURTHER, Draft, with_longest_histories
from tpnet_dist.batches.event_batches import EventBatch, batches_to_record
from tpnet_dist.batches.hops import FoundHop, further_hops
from tpnet_dist.batches.links import PlannedLinks, with_places
from tpnet_dist.distributed.batch_slices import BatchSlices
from tpnet_dist.events.batch_plan import BatchPlan
from tpnet_dist.events.features import LogFeatures
from tpnet_dist.events.grown_features import FeatureRows
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.view import EventView, SelectedEvents
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.memory.event_run import BatchEvents
from tpnet_dist.memory.pipeline import MemoryRequest
from tpnet_dist.memory.run_length import MOST_BATCHES, in_runs
from tpnet_dist.models.common.dropout import event_keys
from tpnet_dist.models.link_batch import Hop, LinkBatch
from tpnet_dist.models.spec import Needs
from tpnet_dist.neighbors.index import NeighborLookup, Neighbors
from tpnet_dist.neighbors.samplers import SAMPLERS, Queries, together
from tpnet_dist.spans import NEIGHBORS, Span

_FEW_SLOTS = 64
"""With more of them, what is planned at once is fewer batches."""

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True)
class NegativeEnds:
    """What a slice's events are scored against."""

    src_B: Ids | None
    """The sources of negatives; None: the source of the event itself."""
    dst_BC: Ids


class Negatives(Protocol):
    def draw(self, batch: SelectedEvents, here: slice) -> NegativeEnds:
        """Draw negatives for the events `here` of a whole batch; they are the same whichever rank asks."""


@dataclass(frozen=True, kw_only=True)
class LinkPlanner:
    """Plans how a part of the log is asked about."""

    log: EventLog
    slices: BatchSlices
    neighbors: NeighborLookup
    needs: Needs
    sample_key: SampleKey
    negatives: Sequence[Negatives]
    padding_node: int | None = None
    """The node that stands in empty neighbour slots and is taken for a neighbour there, as in the released
    code, which also reads rows at the last recorded time; None: empty slots are left out."""
    later_features: FeatureRows | None = None
    """Edge features, where there are more events than in the log; None: the log's."""
    dropout: SampleKey | None = None
    """The seed and epoch by whose draws values are dropped; None: none are."""
    dtype: torch.dtype = torch.float32
    """The type of the model's weights, and of the features that meet them."""

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
        """Yield a request for each batch, or one for each piece of it; a batch is recorded with its last.

        `memory_time`: of the last event that is recorded already.
        """
        _compute_alone()
        batches: Iterator[Iterable[Draft]]
        batches = self._batches(view, plan, from_batch, record, memory_time, events_per_piece)
        if self.needs.longest_history:
            batches = with_longest_histories(batches, self.neighbors, self.needs.neighbors)
        drafts = chain.from_iterable(batches)
        most = max(1, MOST_BATCHES * _FEW_SLOTS // max(_FEW_SLOTS, self.needs.neighbors))
        for of_run in in_runs(drafts, lambda: most, lambda draft: len(draft.recorded)):
            yield from self._finish(of_run)

    def _batches(
        self,
        view: EventView,
        plan: BatchPlan,
        from_batch: int,
        record: bool,
        memory_time: float,
        events_per_piece: int | None,
    ) -> Iterator[Iterator[Draft]]:
        """Yield the pieces of each batch."""
        nothing = BatchEvents.none()
        for batch in batches_to_record(self.log, view, plan, from_batch):
            recorded = batch.recorded if record else nothing
            yield self._drafts(batch, recorded, memory_time, events_per_piece)
            memory_time = float(recorded.time_B[-1]) if len(recorded) else memory_time

    def _drafts(
        self, batch: EventBatch, recorded: BatchEvents, memory_time: float, events_per_piece: int | None
    ) -> Iterator[Draft]:
        *pieces, last = self._pieces(len(batch.selected), events_per_piece)
        for piece in pieces:
            yield self._draft(batch.selected, batch.time_B, piece, memory_time, BatchEvents.none())
        yield self._draft(batch.selected, batch.time_B, last, memory_time, recorded)

    def _pieces(self, num_events: int, events_per_piece: int | None) -> list[slice]:
        """Return the whole slice of this rank, or pieces that lie in one microbatch each; as many on every
        rank, though some may be empty."""
        slices, whole = self.slices, self.slices.slice_of(num_events)
        if events_per_piece is None or slices.largest_slice(num_events) <= events_per_piece:
            return [whole]
        mine, none = slices.microbatches(num_events), slice(whole.stop, whole.stop)
        mine += [none] * (slices.most_microbatches - len(mine))
        largest = slices.largest_microbatch(num_events)
        return [
            slice(min(start, each.stop), min(start + events_per_piece, each.stop))
            for each in mine
            for start in range(each.start, each.start + largest, events_per_piece)
        ]

    @Span("plan")
    def plan(
        self,
        selected: SelectedEvents,
        seconds: Tensor,
        here: slice,
        memory_time: float,
        longest_history: int | None = None,
    ) -> PlannedLinks:
        """Plan the events `here` of some that need not be in the log, at `seconds` since its first event.
        `longest_history`: what stands for that of their batch, since they are none."""
        draft = self._draft(selected, seconds, here, memory_time, BatchEvents.none())
        if longest_history is not None:
            draft = draft.all_alike(min(longest_history, self.needs.neighbors))
        [request] = self._finish([draft])
        return request.note

    @Span("plan")
    def _draft(
        self,
        selected: SelectedEvents,
        seconds: Tensor,
        here: slice,
        memory_time: float,
        recorded: BatchEvents,
    ) -> Draft:
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
        ends = [torch.from_numpy(np.column_stack(pair).astype(np.int64)) for pair in links]
        return Draft(mine, read_time_B, ends, self._microbatches(len(selected), here), recorded)

    @Span("plan")
    def _finish(self, drafts: Sequence[Draft]) -> list[MemoryRequest[PlannedLinks]]:
        """Look up neighbours, once for all drafts: other ranks take part in it."""
        found, means = self._find(drafts), self._neighbor_means(drafts)
        requests = []
        for draft, of_draft, hops in zip(drafts, found, self._further_hops(drafts, found), strict=True):
            slot_rows = hops[0].rows.slot_rows if hops else [None] * len(of_draft)
            batches = [
                self._batch(draft, number, neighbors, rows, next(means))
                for number, (neighbors, rows) in enumerate(zip(of_draft, slot_rows, strict=True))
            ]
            nodes_U, placed, placed_hops = with_places(batches, list(self._hops(hops)))
            planned = PlannedLinks(
                events_B=torch.from_numpy(draft.mine.index),
                read_time_B=draft.read_time_B,
                nodes_U=nodes_U,
                node_features_UF=self._node_features(nodes_U),
                blocks=placed,
                hops=placed_hops,
                microbatches=draft.microbatches,
            )
            requests.append(MemoryRequest(nodes_U, draft.recorded, planned))
        return requests

    def _microbatches(self, num_events: int, here: slice) -> tuple[slice, ...]:
        """Return what of each microbatch of this rank is `here`, counted from its start."""
        start, stop, _ = here.indices(num_events)
        return tuple(
            slice(min(max(each.start, start), stop) - start, min(max(each.stop, start), stop) - start)
            for each in self.slices.microbatches(num_events)
        )

    def _batch(
        self,
        draft: Draft,
        number: int,
        found: Neighbors,
        rows_QM: Tensor | None,
        means_QF: Tensor | None,
    ) -> LinkBatch:
        ends_BS = draft.ends[number]
        shape = (*ends_BS.shape, self.needs.neighbors)
        mask_BSM, ids_BSM = found.mask_BM.view(shape), found.ids_BM.view(shape)
        # without a padding node any node of the link serves, since empty slots are left out
        padding = ends_BS[:, :, None] if self.padding_node is None else torch.tensor(self.padding_node)
        # a copy, since Arrow's buffers may not be written to
        elapsed_BSM, own_B = self._elapsed(torch.tensor(draft.mine.columns.time), found.times_BM.view(shape))
        # events of further blocks drop otherwise than those of the first
        keys_B = self._dropout_keys(torch.from_numpy(draft.mine.index))
        return LinkBatch(
            ends_BS=ends_BS,
            neighbors_BSM=torch.where(mask_BSM, ids_BSM, padding),
            neighbor_mask_BSM=mask_BSM,
            elapsed_BSM=elapsed_BSM if rows_QM is not None else elapsed_BSM.float(),
            edge_features_BSMF=self._edge_features(found.events_BM.view(shape), mask_BSM),
            neighbor_means_BSF=None if means_QF is None else means_QF.view(*ends_BS.shape, -1).to(self.dtype),
            longest_BS=None if draft.longest is None else draft.longest[number].expand(ends_BS.shape),
            own_elapsed_B=own_B,
            repeats_BSM=found.repeats().view(shape) if self.needs.draws else None,
            hop_rows_BSM=None if rows_QM is None else rows_QM.view(shape),
            dropout_keys_B=None if keys_B is None else keys_B ^ number,
        )

    def _hops(self, hops: Sequence[FoundHop]) -> Iterator[Hop]:
        for number, hop in enumerate(hops, start=1):
            rows, found = hop.rows, hop.found
            yield Hop(
                nodes_V=rows.node_V,
                neighbors_VM=torch.where(found.mask_BM, found.ids_BM, rows.node_V[:, None]),
                mask_VM=found.mask_BM,
                elapsed_VM=self._seconds(rows.time_V[:, None] - found.times_BM),
                edge_features_VMF=self._edge_features(found.events_BM, found.mask_BM),
                rows_VM=hops[number].rows.slot_rows[0] if number < len(hops) else None,
                dropout_keys_V=self._dropout_keys(rows.number_V),
            )

    def _dropout_keys(self, numbers: Tensor) -> Tensor | None:
        return None if self.dropout is None else event_keys(*self.dropout, numbers)

    def _elapsed(self, now_B: Tensor, then_BSM: Tensor) -> tuple[Tensor, Tensor | None]:
        """Seconds since each interaction, and what float32 takes from the time of the query, if it may."""
        if not self.needs.float32_times:
            return self._seconds(now_B.view(-1, 1, 1) - then_BSM), None
        now_B, then_BSM = self._seconds(now_B), self._seconds(then_BSM)
        return now_B.view(-1, 1, 1) - then_BSM.float(), (now_B - now_B.float()).float()

    def _seconds(self, ticks: Tensor) -> Tensor:
        return ticks.double().mul_(self.log.manifest.seconds_per_tick)

    @Span(NEIGHBORS)
    def _find(self, drafts: Sequence[Draft]) -> list[list[Neighbors]]:
        """Find the neighbours of each block of each draft."""
        asked = [query for draft in drafts for query in draft.queries()]
        found = self._look_up(together(asked), self.needs.neighbors)
        parts = found.split([len(query.node_B) for query in asked])
        return [list(islice(parts, len(draft.ends))) for draft in drafts]

    @Span(NEIGHBORS)
    def _further_hops(self, drafts: Sequence[Draft], found: list[list[Neighbors]]) -> list[list[FoundHop]]:
        numbers = [[query.numbers for query in draft.queries()] for draft in drafts]
        needs = self.needs
        return further_hops(
            found,
            numbers,
            needs.hops - 1,
            lambda queries: self._look_up(queries, needs.neighbors),
            draws=needs.draws,
        )

    def _look_up(self, queries: Queries, count: int) -> Neighbors:
        sampler = SAMPLERS[self.needs.sampling]
        if not self.needs.draws:
            # other ranks need not know them
            queries = replace(queries, number_B=None)
        return self.neighbors.sample(queries, sampler, count=count, key=self.sample_key)

    def _neighbor_means(self, drafts: Sequence[Draft]) -> Iterator[Tensor | None]:
        """Yield the mean node feature of `needs.feature_neighbors` interactions for each block of drafts."""
        features, count = self.log.node_features, self.needs.feature_neighbors
        for draft in drafts:
            for query in draft.queries():
                if features is None or not count:
                    yield None
                    continue
                with Span(NEIGHBORS):
                    # other draws than those of the slots
                    found = self._look_up(replace(query, number_B=query.numbers + FURTHER), count)
                    mean_QF = _means(features, found)
                yield mean_QF

    def _node_features(self, nodes_U: Tensor) -> Tensor | None:
        features = self.log.node_features
        if features is None:
            return None
        # neither a padding node nor one that came after the log has features
        known_U = nodes_U.clamp(max=len(features) - 1)
        chosen_UF = torch.from_numpy(features[known_U.numpy()])
        return chosen_UF.mul_((nodes_U == known_U)[:, None]).to(self.dtype)

    def _edge_features(self, events_BSM: Tensor, mask_BSM: Tensor) -> Tensor | None:
        features = self.log.edge_features if self.later_features is None else self.later_features
        if features is None:
            return None
        chosen = torch.from_numpy(features[events_BSM.clamp(min=0).numpy()])
        return chosen.mul_(mask_BSM[..., None]).to(self.dtype)


def _means(features: LogFeatures, found: Neighbors) -> Tensor:
    """Return mean features, (Q, F): zero where there is no neighbour; features of nodes that came later are
    zero."""
    mask_QM = found.mask_BM & (found.ids_BM < len(features))
    starts_Q = mask_QM.sum(1).cumsum(0) - mask_QM.sum(1)
    used, places = np.unique(found.ids_BM[mask_QM].numpy(), return_inverse=True)
    rows = torch.from_numpy(places)
    sums_QF = F.embedding_bag(rows, torch.from_numpy(features[used]), starts_Q, mode="sum")
    return sums_QF / found.mask_BM.sum(1, keepdim=True).clamp(min=1)


def _compute_alone() -> None:
    """Use one thread: small operations gain nothing from several, and beside the model they would wait for
    cores."""
    if threading.current_thread() is not threading.main_thread():
        torch.set_num_threads(1)
