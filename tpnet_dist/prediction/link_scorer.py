"""Logits of links after all that has happened, by the trainer's own path: planner, memory, model."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from tpnet_dist.batches.link_batches import LinkBatchMaker, rows_ahead
from tpnet_dist.batches.links import PlannedLinks
from tpnet_dist.batches.negatives import NegativeEnds
from tpnet_dist.batches.run_data import planner_of
from tpnet_dist.distributed.batch_slices import BatchSlices
from tpnet_dist.errors import InputError
from tpnet_dist.evaluation.scoring import EVALUATION_KEY, logits_of
from tpnet_dist.events.raw_ids import Dense
from tpnet_dist.events.shards import Times
from tpnet_dist.events.view import SelectedEvents
from tpnet_dist.memory.event_run import BatchEvents
from tpnet_dist.memory.pipeline import MemoryRequest
from tpnet_dist.prediction.past import Past

LINKS_PER_PIECE = 500
"""A fourth of the evaluation's, which take the published model 1.3 GiB at a time; it is as fast."""

Logits = npt.NDArray[np.float32]
Piece = tuple[slice, slice]
"""Which sources, and which of their destinations."""


@dataclass(frozen=True)
class _FurtherDestinations:
    """Take the place of negatives: they are scored as the destination of the link itself is."""

    dst_BC: Dense

    def draw(self, batch: SelectedEvents, here: slice) -> NegativeEnds:
        return NegativeEnds(None, np.ascontiguousarray(self.dst_BC[here], np.int32))


class LinkScorer:
    """Scores links by one model and one past."""

    def __init__(
        self, model: nn.Module, past: Past, batch_maker: LinkBatchMaker, padding_node: int | None
    ) -> None:
        self.model, self.past, self.batch_maker = model, past, batch_maker
        self._planner = planner_of(
            past.config,
            past.log,
            past.neighbors,
            [],
            slices=BatchSlices(0, 1, 1),
            key=EVALUATION_KEY,
            padding_node=padding_node,
            later_features=past.edge_features,
        )

    @torch.inference_mode()
    def logits(self, src_B: Dense, dst_BC: Dense, time_B: Times) -> Logits:
        """(B, C), piece by piece: however many there are, some hundred links are worked on at a time."""
        num_targets = dst_BC.shape[1]
        if self._planner.lookup.needs.draws and num_targets > 1:
            # what is drawn depends on the place of an end: so each link has the places of a single one
            pairs = self.logits(src_B.repeat(num_targets), dst_BC.reshape(-1, 1), time_B.repeat(num_targets))
            return pairs.reshape(dst_BC.shape)
        self.model.eval()
        logits_BC = np.empty(dst_BC.shape, np.float32)
        pieces = list(_pieces(*dst_BC.shape))
        # links that are asked about together are no batch, so the longest history of all stands for theirs
        longest = self.past.neighbors.longest_of_all() if self._planner.lookup.needs.longest_history else None
        requests = (self._request(src_B, dst_BC, time_B, piece, longest) for piece in pieces)
        prefetch = self.past.config.memory.prefetch if len(pieces) > 1 else 0
        ahead = rows_ahead(self.past.memory, requests, prefetch=prefetch, maker=self.batch_maker)
        for piece, (planned, rows) in zip(pieces, ahead, strict=True):
            logits_BC[piece] = logits_of(self.model, self.batch_maker.make(planned, rows)).cpu().numpy()
        if not (is_finite_BC := np.isfinite(logits_BC)).all():
            raise InputError(
                f"{(~is_finite_BC).sum():,} of {logits_BC.size:,} scores are not finite, but must be; the "
                "weights are damaged or training diverged: restore the checkpoint, or train anew"
            )
        return logits_BC

    def _request(
        self, src_B: Dense, dst_BC: Dense, time_B: Times, piece: Piece, longest_history: int | None
    ) -> MemoryRequest[PlannedLinks]:
        sources, _ = piece
        chosen_BC = dst_BC[piece]
        selected = self.past.links(src_B[sources], chosen_BC[:, 0], time_B[sources])
        planner = replace(self._planner, negatives=[_FurtherDestinations(chosen_BC[:, 1:])])
        planned = planner.plan(selected, self.past.memory_time, longest_history)
        return MemoryRequest(planned.nodes_U, BatchEvents.none(), planned)


def _pieces(num_sources: int, num_targets: int) -> Iterator[Piece]:
    sources_each = max(1, LINKS_PER_PIECE // max(1, num_targets))
    for source in range(0, num_sources, sources_each):
        for target in range(0, num_targets, LINKS_PER_PIECE):
            yield slice(source, source + sources_each), slice(target, target + LINKS_PER_PIECE)
