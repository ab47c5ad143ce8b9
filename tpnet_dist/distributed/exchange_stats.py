"""What exchanges cost: bytes, rows, collectives, seconds."""

import threading
import time
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from tpnet_dist.spans import Span

_counting = threading.Lock()
"""Guards the counters: on a GPU ids travel in another thread than rows."""


class Stage:
    """Adds the host's time spent inside it; a class, since a generator costs as much as a small tensor
    operation. It is a span, too."""

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self.seconds, self.name, self.started = seconds, name, 0.0
        self.span = Span(name)

    def __enter__(self) -> None:
        self.span.__enter__()
        self.started = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        seconds = time.perf_counter() - self.started
        with _counting:
            self.seconds[self.name] = self.seconds.get(self.name, 0.0) + seconds
        self.span.__exit__(None, None, None)


class RowTraffic(NamedTuple):
    """Says what rows of other ranks took, and how many of those needed were there already."""

    bytes_received: int
    rows_needed: int
    rows_borrowed: int


@dataclass
class ExchangeStats:
    """Keeps running totals of one rank. Bytes count what goes to or comes from other ranks, not to itself."""

    bytes_sent: int = 0
    bytes_received: int = 0
    rows_needed: int = 0
    """Rows of other ranks that runs of batches worked with, each counted once a run."""
    rows_borrowed: int = 0
    """The needed rows of which some layers had to travel; the others were there from earlier runs."""
    ends_replayed: int = 0
    """Ends of events that were recorded here, on own rows and on borrowed ones."""
    collectives: int = 0
    batches: int = 0
    runs: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds by stage: plan, borrow, read, record; and columns, where events are recorded by columns."""

    def count_collective(self, bytes_out: int = 0, bytes_in: int = 0) -> None:
        with _counting:
            self.collectives += 1
            self.bytes_sent += bytes_out
            self.bytes_received += bytes_in

    def stage(self, name: str) -> "Stage":
        return Stage(self.seconds, name)

    def row_traffic(self) -> RowTraffic:
        return RowTraffic(self.bytes_received, self.rows_needed, self.rows_borrowed)

    def to_json(self) -> dict[str, object]:
        return asdict(self)
