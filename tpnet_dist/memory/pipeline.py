"""Rows are read and events recorded ahead of whoever consumes the rows.

The memory has no learned parameter, so nothing the consumer does changes what comes next: however deep the
pipeline, every bit of the result is the same.

    on the host   a thread plans, exchanges, reads and records, up to `prefetch` batches ahead
    on a GPU      a thread plans, arranges and packs, a run ahead, and leaves the device alone; when the
                  consumer asks for a batch, exchange, reading and recording of the next are launched on a
                  stream of their own: so all that is launched comes from one thread, in one order on all
                  ranks, and the device does it beside what the consumer asks of it

While it runs the memory is ahead of the consumer, so its state is not the consumer's: to save it at some
batch, end the requests there, and go on with a new pipeline.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from tpnet_dist.distributed.packed_copy import Parcel, Sendable, packed_ahead
from tpnet_dist.files.read_ahead import read_ahead
from tpnet_dist.memory.event_run import BatchEvents
from tpnet_dist.memory.fetched_rows import FetchedRows
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.run_length import in_runs
from tpnet_dist.memory.run_plan import RunPlan

Note = TypeVar("Note")
Item = TypeVar("Item")

RUNS_AHEAD = 1
"""The number of runs that wait for their turn on a GPU, beside the one consumed and the one planned."""


@dataclass(frozen=True)
class MemoryRequest(Generic[Note]):
    """What one timestamp batch, or a piece of one, wants of the memory."""

    nodes: Tensor | None
    """The nodes whose rows this rank's slice reads; repetitions allowed."""
    events: BatchEvents
    """The events recorded after that: those of the batch, or of a whole group of equal times with its last
    batch; none where rows are only looked at."""
    note: Note
    """Whatever the consumer wants back beside the rows."""


@dataclass(frozen=True)
class _Run(Generic[Note]):
    plan: RunPlan
    notes: list[Note]
    parcels: list[Parcel] | None = None
    """For a GPU, what each batch takes there, and the note as far as it is to be sent."""


def fetch_ahead(
    memory: Memory, requests: Iterable[MemoryRequest[Note]], *, prefetch: int
) -> Iterator[tuple[Note, FetchedRows]]:
    """Yield each request's rows in order, up to `prefetch` batches ahead of the consumer.

    `requests` is consumed in the background thread too: planning negatives and neighbours runs ahead as well.
    Consumers that leave early must do so at the same batch on all ranks.
    """
    if memory.stream is not None:
        yield from _fetch_on_device(memory, memory.stream, requests, prefetch)
        return
    ahead = read_ahead(_fetch_each(memory, _planned(memory, requests)), prefetch, fill_on_exit=True)
    with closing(ahead):  # type: ignore[type-var]
        for note, rows, _ in ahead:
            yield note, rows


def _fetch_on_device(
    memory: Memory, stream: torch.cuda.Stream, requests: Iterable[MemoryRequest[Note]], prefetch: int
) -> Iterator[tuple[Note, FetchedRows]]:
    # what was done to the memory so far
    stream.wait_stream(torch.cuda.current_stream(memory.device))
    runs = packed_ahead(_packed(memory, requests), memory.device, RUNS_AHEAD if prefetch else 0)
    fetched = _launched_on(stream, _fetch_each(memory, runs))
    try:
        for note, rows, ready in _one_ahead(fetched) if prefetch else fetched:
            current = torch.cuda.current_stream(memory.device)
            assert ready is not None
            ready.wait(current)
            for column in rows.tensors():
                column.record_stream(current)
            yield note, rows
    finally:
        runs.close()  # type: ignore[attr-defined]
        # the last batches are still being recorded
        torch.cuda.current_stream(memory.device).wait_stream(stream)


def _planned(memory: Memory, requests: Iterable[MemoryRequest[Note]]) -> Iterator[_Run[Note]]:
    for run in in_runs(requests, memory.runs.length.batches, lambda request: len(request.events)):
        plan = memory.plan([request.events for request in run], [request.nodes for request in run])
        yield _Run(plan, [request.note for request in run])


def _packed(memory: Memory, requests: Iterable[MemoryRequest[Note]]) -> Iterator[_Run[Note]]:
    for run in _planned(memory, requests):
        memory.runs.arrange(run.plan)
        batches = memory.device_batches(run.plan)
        parcels = [
            Parcel([batch, *([note] if isinstance(note, Sendable) else [])], memory.device)
            for batch, note in zip(batches, run.notes, strict=True)
        ]
        yield _Run(run.plan, run.notes, parcels)


def _fetch_each(
    memory: Memory, runs: Iterable[_Run[Note]]
) -> Iterator[tuple[Note, FetchedRows, torch.cuda.Event | None]]:
    planned: deque[_Run[Note]] = deque()

    def plans() -> Iterator[RunPlan]:
        for run in runs:
            planned.append(run)
            yield run.plan

    for plan in memory.runs.in_turn(plans()):
        run = planned.popleft()
        for batch, note in enumerate(run.notes):
            sent = None
            if run.parcels is not None:
                sent, *notes = run.parcels[batch].arrive()
                note = notes[0] if notes else note
            fetched = memory.read(plan, batch, sent=sent)
            # later batches overwrite rows in the table, never the fetched copies
            ready = memory.stream.record_event() if memory.stream is not None else None
            memory.record(plan, range(batch, batch + 1), sent=sent)
            yield note, fetched, ready


def _launched_on(stream: torch.cuda.Stream, items: Iterator[Item]) -> Iterator[Item]:
    """Make each item in the stream; whoever takes it stays in his own."""
    while True:
        with torch.cuda.stream(stream):
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


def _one_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield each item when the next is launched; an error comes after the items before it."""
    held: list[Item] = []
    while True:
        try:
            following = [next(items)]
        except StopIteration:
            break
        except Exception:
            yield from held
            raise
        yield from held
        held = following
    yield from held
