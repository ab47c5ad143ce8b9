"""What exchanges cost: bytes, rows, collectives, seconds."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field


@dataclass
class ExchangeAccount:
    """Running totals of one rank. Bytes count what goes to or comes from other ranks, not to itself."""

    bytes_sent: int = 0
    bytes_received: int = 0
    rows_wanted: int = 0
    """Rows asked for before repetitions were dropped."""
    rows_fetched: int = 0
    """Rows asked for after that."""
    rows_recorded: int = 0
    """Rows for which summed messages were sent."""
    collectives: int = 0
    batches: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    """By stage: plan, fetch, record."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def to_json(self) -> dict[str, object]:
        return asdict(self)
