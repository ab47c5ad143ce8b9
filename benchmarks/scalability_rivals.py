"""What else could be done with a log of the scalability study, until time or memory is used up.

    python -m benchmarks.scalability_rivals LOG --rival dense --seconds 60

`dense`: the published update, which makes a decayed copy of the whole table for every batch, with malloc as
it is by default, as the released code runs: every copy is fresh memory and costs its page faults.
`dense-kept`: the same in a process whose malloc keeps what is freed, as in ours. `stored`: the walk matrices
themselves, sparse, as PINT keeps them. Each records the log in batches of 200 from its first event on and
prints how far it came, as one JSON line.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import torch
import tyro
from tyro.conf import Positional

from benchmarks.measuring import peak_bytes
from benchmarks.published_update import PublishedUpdate
from benchmarks.stored_walks import StoredWalks
from tpnet_dist.batches.event_batches import batches_to_record
from tpnet_dist.batches.run_data import plan_of
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.host_memory import keep_large_buffers
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.view import EventView
from tpnet_dist.memory.event_run import BatchEvents
from tpnet_dist.sizing.memory_sizes import memory_width

Rival = Literal["dense", "dense-kept", "stored"]
Outcome = Literal["finished", "out of time", "out of memory"]
Record = Callable[[BatchEvents], None]


@dataclass(kw_only=True)
class Settings:
    """The rival, and the time and memory that it may take."""

    log: Positional[Path]
    rival: Rival
    seconds: float = 600.0
    """The most seconds of recording."""
    memory_gib: float = 16.0
    """The most resident memory."""


@dataclass(frozen=True)
class Reached:
    """The point that a rival reached."""

    outcome: Outcome
    events: int
    """The events recorded until then."""
    seconds: float
    peak_bytes: int
    """The peak of resident bytes; for a table too large to be made, the bytes that it would take."""
    width: int
    """The width of a projected row; 0 where nothing is projected."""


def run_rival(settings: Settings) -> Reached:
    """Run a rival. With `dense-kept` the whole process keeps buffers from here on: run it in one of its
    own."""
    if settings.rival == "dense-kept":
        keep_large_buffers()
    torch.set_num_threads(1)
    log, config, most_bytes = EventLog(settings.log), Config(), int(settings.memory_gib * 2**30)
    if settings.rival == "stored":
        return _record_until(_batches(log, config), _stored(log, config), settings.seconds, most_bytes)
    width = memory_width(config.memory, log)
    # one layer more: the copy of one is made while the old one is still there
    table_bytes = log.num_nodes * (config.memory.hops + 2) * width * 4
    if table_bytes > most_bytes:
        return Reached("out of memory", 0, 0.0, table_bytes, width)
    record = _dense(log, config, width)
    return replace(_record_until(_batches(log, config), record, settings.seconds, most_bytes), width=width)


def _batches(log: EventLog, config: Config) -> Iterator[BatchEvents]:
    everything = EventView(log, 0, len(log))
    plan = plan_of(everything, config, config.training.batch_size)
    return (events for _, events in batches_to_record(log, everything, plan) if len(events))


def _dense(log: EventLog, config: Config, width: int) -> Record:
    settings = config.memory
    projection_ND = torch.randn(log.num_nodes, width).div_(width**0.5)
    memory = PublishedUpdate(projection_ND, settings.hops, *settings.rates)
    return lambda events: memory.record(events.src_B, events.dst_B, events.time_B)


def _stored(log: EventLog, config: Config) -> Record:
    walks = StoredWalks(log.num_nodes, config.memory.hops, *config.memory.rates)
    return lambda events: walks.record(
        events.src_B.numpy().astype("int32"), events.dst_B.numpy().astype("int32"), events.time_B.numpy()
    )


def _record_until(
    batches: Iterator[BatchEvents], record: Record, most_seconds: float, most_bytes: int
) -> Reached:
    num_events, started = 0, time.perf_counter()
    outcome: Outcome = "finished"
    for events in batches:
        try:
            record(events)
        except (MemoryError, RuntimeError) as error:
            # numpy's way of saying it, and torch's
            if not isinstance(error, MemoryError) and "allocate memory" not in str(error):
                raise
            outcome = "out of memory"
            break
        num_events += len(events)
        if time.perf_counter() - started > most_seconds:
            outcome = "out of time"
            break
        if peak_bytes() > most_bytes:
            outcome = "out of memory"
            break
    return Reached(outcome, num_events, time.perf_counter() - started, peak_bytes(), width=0)


def main() -> None:
    print(json.dumps(asdict(run_rival(tyro.cli(Settings, description=__doc__)))))


if __name__ == "__main__":
    main()
