"""How large a log is: all that a plan needs to know of one."""

from dataclasses import dataclass, replace

from tpnet_dist.errors import InputError

AVERAGE_DEGREE = 100
"""The average degree of the paper's random graphs."""


@dataclass(frozen=True)
class LogShape:
    """A log that may not exist yet."""

    num_events: int
    num_nodes: int
    node_width: int = 0
    edge_width: int = 0
    train_share: float | None = None
    train_batches: int | None = None
    """Batches of an epoch, where the log was split and its events were cut."""
    """The share of its events that training sees; None where nobody has split it."""

    def __post_init__(self) -> None:
        for name in ("num_events", "num_nodes"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}, but a log has at least one; ask for more")

    def __len__(self) -> int:
        return self.num_events

    @classmethod
    def random(cls, num_events: int, num_nodes: int | None = None) -> "LogShape":
        """Return a random log, by default with as many nodes as the paper's graphs have."""
        return cls(num_events, num_nodes or max(2, round(2 * num_events / AVERAGE_DEGREE)))

    def scaled(self, times: float) -> "LogShape":
        """Return a log of the same kind: as many events per node, the same features."""
        events, nodes = round(self.num_events * times), round(self.num_nodes * times)
        return replace(self, num_events=max(1, events), num_nodes=max(2, nodes), train_batches=None)
