"""Fetch and record run ahead of whoever consumes the fetched rows.

H has no learned parameter, so nothing the consumer does changes what comes next: however deep the pipeline,
every bit of the result is the same.

While it runs the memory is ahead of the consumer, so its state is not the consumer's: to save it at some
batch, end the requests there, and go on with a new pipeline.
"""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
from torch import Tensor

from tpnet_dist.memory.groups import record_group
from tpnet_dist.memory.memory import FetchedRows, Memory
from tpnet_dist.memory.plan import BatchEvents
from tpnet_dist.read_ahead import read_ahead

Note = TypeVar("Note")
Item = TypeVar("Item")

BATCHES_PER_PLAN = 32


@dataclass(frozen=True)
class MemoryRequest(Generic[Note]):
    """What one timestamp batch wants of the memory."""

    events: BatchEvents
    needed: Tensor | None
    """Further nodes whose rows this rank's slice wants: negatives, neighbours."""
    note: Note
    """Whatever the consumer wants back beside the rows."""
    record: bool = True
    """Whether these events are recorded once their rows are fetched."""
    group: tuple[BatchEvents, ...] = field(default=())
    """Recorded instead, all at once: the pieces of a group of equal times larger than a batch."""
    products: bool = True
    """Whether rows are wanted with their self-products."""

    @property
    def is_plain(self) -> bool:
        """Whether the request records its own events and nothing else."""
        return self.record and not self.group


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
    for run in _runs(requests):
        plans = memory.plan_run(
            [request.events for request in run],
            [request.needed for request in run],
            record=run[0].is_plain,
        )
        for request, plan in zip(run, plans, strict=True):
            fetched = memory.fetch(plan, products=request.products)
            # later batches overwrite rows in the table, never the fetched copies
            ready = stream.record_event() if stream is not None else None
            memory.record(plan, fetched)
            if request.group:
                record_group(memory, request.group)
            yield request.note, fetched, ready


def _runs(requests: Iterable[MemoryRequest[Note]]) -> Iterator[list[MemoryRequest[Note]]]:
    """Plain requests together, since planning many at once is cheaper; others alone. What comes before an
    error is passed on before the error."""
    run: list[MemoryRequest[Note]] = []
    try:
        for request in requests:
            if run and not (request.is_plain and run[0].is_plain and len(run) < BATCHES_PER_PLAN):
                yield run
                run = []
            run.append(request)
    except Exception:
        if run:
            yield run
        raise
    if run:
        yield run


def _steps_on(stream: torch.cuda.Stream | None, items: Iterator[Item]) -> Iterator[Item]:
    """Make each item in the stream; whoever takes it stays in his own."""
    while True:
        with nullcontext() if stream is None else torch.cuda.stream(stream):
            try:
                item = next(items)
            except StopIteration:
                return
        yield item
