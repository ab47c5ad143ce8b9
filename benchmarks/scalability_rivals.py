"""What else could be done with a log of the scalability study, until time or memory is used up.

    python -m benchmarks.scalability_rivals LOG --rival dense --seconds 60

`dense`: the published update, which decays the whole table for every batch. `stored`: the walk matrices
themselves, sparse, as PINT keeps them. Each records the log in batches of 200 from its first event on and
prints how far it came, as one JSON line.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch
import tyro
from tyro.conf import Positional

from benchmarks.measuring import peak_bytes
from benchmarks.stored_walks import StoredWalks
from tests.reference.literal import LiteralMemory
from tpnet_dist.config import Config
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.view import EventView
from tpnet_dist.memory.plan import BatchEvents
from tpnet_dist.training.event_batches import batches_to_record
from tpnet_dist.training.memory_sizes import memory_width
from tpnet_dist.training.run_data import plan_of

Rival = Literal["dense", "stored"]
Outcome = Literal["finished", "out of time", "out of memory"]
Record = Callable[[BatchEvents], None]


@dataclass(kw_only=True)
class Settings:
    """Which rival, and what it may take."""

    log: Positional[Path]
    rival: Rival
    seconds: float = 600.0
    """Of recording."""
    memory_gib: float = 16.0
    """Resident."""


@dataclass(frozen=True)
class Reached:
    """How far a rival came."""

    outcome: Outcome
    events: int
    seconds: float
    peak_bytes: int


def run_rival(settings: Settings) -> Reached:
    torch.set_num_threads(1)
    log, config, most_bytes = EventLog(settings.log), Config(), int(settings.memory_gib * 2**30)
    width = memory_width(config.memory, log)
    table_bytes = log.num_nodes * (config.memory.hops + 1) * width * 4
    if settings.rival == "dense" and table_bytes > most_bytes:
        return Reached("out of memory", 0, 0.0, table_bytes)
    record = _dense(log, config, width) if settings.rival == "dense" else _stored(log, config)
    return _record_until(_batches(log, config), record, settings.seconds, most_bytes)


def _batches(log: EventLog, config: Config) -> Iterator[BatchEvents]:
    everything = EventView(log, 0, len(log))
    plan = plan_of(everything, config, config.training.batch_size)
    return (batch.events for batch in batches_to_record(log, everything, plan))


def _dense(log: EventLog, config: Config, width: int) -> Record:
    settings = config.memory
    projection_ND = torch.randn(log.num_nodes, width).div_(width**0.5)
    memory = LiteralMemory(log.num_nodes, width, settings.hops, settings.decay, "decay", projection_ND)
    return lambda events: memory.record(events.src_B, events.dst_B, events.time_B)


def _stored(log: EventLog, config: Config) -> Record:
    walks = StoredWalks(log.num_nodes, config.memory.hops, config.memory.decay)
    return lambda events: walks.record(
        events.src_B.numpy().astype("int32"), events.dst_B.numpy().astype("int32"), events.time_B.numpy()
    )


def _record_until(
    batches: Iterator[BatchEvents], record: Record, most_seconds: float, most_bytes: int
) -> Reached:
    num_events, started = 0, time.perf_counter()
    outcome: Outcome = "finished"
    for events in batches:
        record(events)
        num_events += len(events)
        if time.perf_counter() - started > most_seconds:
            outcome = "out of time"
            break
        if peak_bytes() > most_bytes:
            outcome = "out of memory"
            break
    return Reached(outcome, num_events, time.perf_counter() - started, peak_bytes())


def main() -> None:
    print(json.dumps(asdict(run_rival(tyro.cli(Settings, description=__doc__)))))


if __name__ == "__main__":
    main()
