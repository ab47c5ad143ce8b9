"""What exchanges cost: bytes, rows, collectives, seconds."""

import time
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import torch.autograd.profiler as profiler


class Stage:
    """Adds the time spent inside it; a class, since a generator costs as much as a small tensor operation.

    Where a profiler is at work, its trace shows the stage.
    """

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self.seconds, self.name, self.started = seconds, name, 0.0
        self.span: profiler.record_function | None = None

    def __enter__(self) -> None:
        if profiler._is_profiler_enabled:
            self.span = profiler.record_function(self.name)
            self.span.__enter__()  # type: ignore[no-untyped-call]
        self.started = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.seconds[self.name] = self.seconds.get(self.name, 0.0) + time.perf_counter() - self.started
        if self.span is not None:
            self.span.__exit__(None, None, None)


class RowTraffic(NamedTuple):
    """Of an account: what rows of other ranks took, and what the cache spared."""

    bytes_received: int
    rows_remote: int
    rows_held: int


@dataclass
class ExchangeAccount:
    """Running totals of one rank. Bytes count what goes to or comes from other ranks, not to itself."""

    bytes_sent: int = 0
    bytes_received: int = 0
    rows_wanted: int = 0
    """Rows asked for before repetitions were dropped."""
    rows_fetched: int = 0
    """Rows asked for after that."""
    rows_remote: int = 0
    """Of those, rows that other ranks own."""
    rows_held: int = 0
    """Of those, rows that were in the cache and did not travel; the hit rate is their share."""
    bytes_saved: int = 0
    """What held rows would have added to the bytes, sent (their ids) and received."""
    rows_recorded: int = 0
    """Rows for which summed messages were sent."""
    collectives: int = 0
    batches: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    """By stage: plan, fetch, record."""

    def stage(self, name: str) -> "Stage":
        return Stage(self.seconds, name)

    def row_traffic(self) -> RowTraffic:
        return RowTraffic(self.bytes_received, self.rows_remote, self.rows_held)

    def to_json(self) -> dict[str, object]:
        return asdict(self)
