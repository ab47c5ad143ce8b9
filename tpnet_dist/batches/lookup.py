"""Look up what a model is told of links: neighbours, their neighbours, features.

Nothing here needs a row, so all of it runs ahead of the memory, in the pipeline's thread.

Q = B·S queries are looked up.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tpnet_dist.batches.drafts import FURTHER, Draft
from tpnet_dist.batches.hops import FoundHop, further_hops
from tpnet_dist.batches.links import PlannedLinks, with_places
from tpnet_dist.events.features import LogFeatures
from tpnet_dist.events.grown_features import FeatureRows
from tpnet_dist.events.reader import EventLog
from tpnet_dist.keyed_random import SampleKey
from tpnet_dist.models.common.dropout import event_keys
from tpnet_dist.models.link_batch import Hop, LinkBatch
from tpnet_dist.models.spec import Needs
from tpnet_dist.neighbors.index import NeighborLookup, Neighbors
from tpnet_dist.neighbors.samplers import SAMPLERS, Queries, together
from tpnet_dist.spans import NEIGHBORS, Span


@dataclass(frozen=True, kw_only=True)
class LinkLookup:
    """Completes links with all that a model needs but rows."""

    log: EventLog
    neighbors: NeighborLookup
    needs: Needs
    sample_key: SampleKey
    padding_node: int | None = None
    """The node that stands in empty neighbour slots and is taken for a neighbour there, as in the released
    code, which also reads rows at the last recorded time; None: empty slots are left out."""
    later_features: FeatureRows | None = None
    """Edge features, where there are more events than in the log; None: the log's."""
    dropout: SampleKey | None = None
    """The seed and epoch by whose draws values are dropped; None: none are."""
    dtype: torch.dtype = torch.float32
    """The type of the model's weights, and of the features that meet them."""

    def links(self, drafts: Sequence[Draft]) -> Iterator[PlannedLinks]:
        """Yield the links of each draft. Neighbours are looked up once for all drafts: other ranks take part
        in it."""
        found, means = self._find(drafts), self._neighbor_means(drafts)
        for draft, of_draft, hops in zip(drafts, found, self._further_hops(drafts, found), strict=True):
            slot_rows = hops[0].rows.slot_rows if hops else [None] * len(of_draft)
            batches = [
                self._batch(draft, number, neighbors, rows, next(means))
                for number, (neighbors, rows) in enumerate(zip(of_draft, slot_rows, strict=True))
            ]
            nodes_U, placed, placed_hops = with_places(batches, list(self._hops(hops)))
            yield PlannedLinks(
                events_B=torch.from_numpy(draft.mine.index),
                read_time_B=draft.read_time_B,
                nodes_U=nodes_U,
                node_features_UF=self._node_features(nodes_U),
                blocks=placed,
                hops=placed_hops,
                microbatches=draft.microbatches,
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
