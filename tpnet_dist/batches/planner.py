"""Turn timestamp batches into requests to the memory: this rank's links, and the nodes whose rows they read.

Nothing here needs a row, so all of it runs ahead of the memory, in the pipeline's thread.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch

from tpnet_dist.batches.drafts import Draft, with_longest_histories
from tpnet_dist.batches.event_batches import batches_to_record
from tpnet_dist.batches.links import PlannedLinks
from tpnet_dist.batches.lookup import LinkLookup
from tpnet_dist.batches.negatives import Ids, Negatives
from tpnet_dist.distributed.batch_slices import BatchSlices
from tpnet_dist.events.batch_plan import BatchPlan
from tpnet_dist.events.view import EventView, SelectedEvents
from tpnet_dist.memory.event_run import BatchEvents
from tpnet_dist.memory.pipeline import MemoryRequest
from tpnet_dist.memory.run_length import MOST_BATCHES, in_runs
from tpnet_dist.spans import Span

_FEW_SLOTS = 64
"""With more of them, what is planned at once is fewer batches."""


@dataclass(frozen=True, kw_only=True)
class LinkPlanner:
    """Plans how a part of the log is asked about."""

    slices: BatchSlices
    negatives: Sequence[Negatives]
    lookup: LinkLookup

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
        needs = self.lookup.needs
        if needs.longest_history:
            batches = with_longest_histories(batches, self.lookup.neighbors, needs.neighbors)
        drafts = chain.from_iterable(batches)
        most = max(1, MOST_BATCHES * _FEW_SLOTS // max(_FEW_SLOTS, needs.neighbors))
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
        for selected, events in batches_to_record(self.lookup.log, view, plan, from_batch):
            recorded = events if record else BatchEvents.none()
            yield self._drafts(selected, recorded, memory_time, events_per_piece)
            memory_time = float(recorded.time_B[-1]) if len(recorded) else memory_time

    def _drafts(
        self,
        selected: SelectedEvents,
        recorded: BatchEvents,
        memory_time: float,
        events_per_piece: int | None,
    ) -> Iterator[Draft]:
        *pieces, last = self._pieces(len(selected), events_per_piece)
        for piece in pieces:
            yield self._draft(selected, piece, memory_time, BatchEvents.none())
        yield self._draft(selected, last, memory_time, recorded)

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
        self, selected: SelectedEvents, memory_time: float, longest_history: int | None = None
    ) -> PlannedLinks:
        """Plan events that need not be in the log. `longest_history`: what stands for that of their batch,
        since they are none."""
        draft = self._draft(selected, slice(None), memory_time, BatchEvents.none())
        if longest_history is not None:
            draft = draft.all_alike(min(longest_history, self.lookup.needs.neighbors))
        [request] = self._finish([draft])
        return request.note

    @Span("plan")
    def _draft(
        self, selected: SelectedEvents, here: slice, memory_time: float, recorded: BatchEvents
    ) -> Draft:
        """Draft the links of the events `here`."""
        mine = selected[here]
        read_time_B = torch.from_numpy(self.lookup.log.seconds(mine.columns.time))
        if self.lookup.padding_node is not None:
            read_time_B.fill_(memory_time)
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
        links = self.lookup.links(drafts)
        return [
            MemoryRequest(planned.nodes_U, draft.recorded, planned)
            for draft, planned in zip(drafts, links, strict=True)
        ]

    def _microbatches(self, num_events: int, here: slice) -> tuple[slice, ...]:
        """Return what of each microbatch of this rank is `here`, counted from its start."""
        start, stop, _ = here.indices(num_events)
        return tuple(
            slice(min(max(each.start, start), stop) - start, min(max(each.stop, start), stop) - start)
            for each in self.slices.microbatches(num_events)
        )


def _compute_alone() -> None:
    """Use one thread: small operations gain nothing from several, and beside the model they would wait for
    cores."""
    if threading.current_thread() is not threading.main_thread():
        torch.set_num_threads(1)
