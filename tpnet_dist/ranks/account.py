"""What exchanges cost: bytes, rows, collectives, seconds."""

import time
from dataclasses import asdict, dataclass, field


class Stage:
    """Adds the time spent inside it; a class, since a generator costs as much as a small tensor operation."""

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self.seconds, self.name, self.started = seconds, name, 0.0

    def __enter__(self) -> None:
        self.started = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.seconds[self.name] = self.seconds.get(self.name, 0.0) + time.perf_counter() - self.started


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

    def stage(self, name: str) -> "Stage":
        return Stage(self.seconds, name)

    def to_json(self) -> dict[str, object]:
        return asdict(self)
