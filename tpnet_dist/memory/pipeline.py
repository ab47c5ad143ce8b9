"""Rows are read and events recorded ahead of whoever consumes the rows.

The memory has no learned parameter, so nothing the consumer does changes what comes next: however deep the
pipeline, every bit of the result is the same.

While it runs the memory is ahead of the consumer, so its state is not the consumer's: to save it at some
batch, end the requests there, and go on with a new pipeline.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from tpnet_dist.files.read_ahead import read_ahead
from tpnet_dist.memory.event_run import BatchEvents
from tpnet_dist.memory.memory import FetchedRows, Memory
from tpnet_dist.memory.run_length import in_runs
from tpnet_dist.memory.run_plan import RunPlan

Note = TypeVar("Note")
Item = TypeVar("Item")


@dataclass(frozen=True)
class MemoryRequest(Generic[Note]):
    """What one timestamp batch, or a piece of one, wants of the memory."""

    nodes: Tensor | None
    """Whose rows this rank's slice reads; repetitions allowed."""
    events: BatchEvents
    """Recorded after that: those of the batch, or of a whole group of equal times with its last batch; none
    where they are only looked at."""
    note: Note
    """Whatever the consumer wants back beside the rows."""


def fetch_ahead(
    memory: Memory, requests: Iterable[MemoryRequest[Note]], *, prefetch: int
) -> Iterator[tuple[Note, FetchedRows]]:
    """Yield each request's rows in order, up to `prefetch` batches ahead of the consumer.

    `requests` is consumed in the background thread too: planning negatives and neighbours runs ahead as well,
    on CUDA in the same stream. Consumers that leave early must do so at the same batch on all ranks.
    """
    stream = memory.stream
    if stream is not None:
        # what was done to the memory so far
        stream.wait_stream(torch.cuda.current_stream(memory.device))
    ahead = read_ahead(_steps_on(stream, _fetch_each(memory, requests, stream)), prefetch, to_the_brim=True)
    try:
        for note, fetched, ready in ahead:
            if ready is not None:
                current = torch.cuda.current_stream(memory.device)
                ready.wait(current)
                for column in (fetched.nodes_U, *fetched.stored.columns()):
                    column.record_stream(current)
            yield note, fetched
    finally:
        ahead.close()  # type: ignore[attr-defined]
        if stream is not None:
            # the last batches are still being recorded
            torch.cuda.current_stream(memory.device).wait_stream(stream)


def _fetch_each(
    memory: Memory, requests: Iterable[MemoryRequest[Note]], stream: torch.cuda.Stream | None
) -> Iterator[tuple[Note, FetchedRows, torch.cuda.Event | None]]:
    planned: deque[list[MemoryRequest[Note]]] = deque()

    def plans() -> Iterator[RunPlan]:
        for run in in_runs(requests, memory.run_length.batches, lambda request: len(request.events)):
            planned.append(run)
            yield memory.plan([request.events for request in run], [request.nodes for request in run])

    for plan in memory.in_turn(plans()):
        for batch, request in enumerate(planned.popleft()):
            fetched = memory.read(plan, batch)
            # later batches overwrite rows in the table, never the fetched copies
            ready = stream.record_event() if stream is not None else None
            memory.record(plan, range(batch, batch + 1))
            yield request.note, fetched, ready


def _steps_on(stream: torch.cuda.Stream | None, items: Iterator[Item]) -> Iterator[Item]:
    """Make each item in the stream; whoever takes it stays in his own."""
    while True:
        with nullcontext() if stream is None else torch.cuda.stream(stream):
            try:
                item = next(items)
            except StopIteration:
                return
        yield item
