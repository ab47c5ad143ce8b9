"""How many batches ranks meet for at once: a rule that all of them evaluate alike.

The longer a run, the fewer meetings and bytes, and the more rows of others a rank must hold at once. A run is
doubled while twice its rows would fit, halved when they do not; what counts is the rank where they fit
least, which ranks learn when they meet. Replaying others' events costs less than borrowing rows anew at every
size measured (docs/memory.md), so it does not limit a run; 32 batches do, since what is planned for them is
held too.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

Item = TypeVar("Item")

MOST_BATCHES = 32
MOST_EVENTS = 12_800
"""The number of events at which a run that is read ends, so that large batches come in shorter runs."""
MOST_UNREAD_BATCHES = 128
"""The most batches of a run that is only recorded, for which nothing but events is held."""


class Fit(IntEnum):
    """Whether the rows of others that a rank needs for a run fit; of several ranks the greatest counts."""

    TWICE = 0
    """The rows of a run twice as long would fit."""
    ONCE = 1
    NOT = 2


@dataclass
class RunLength:
    """Says how many batches the next run has: a number that was given, or one that adapts."""

    given: int | None = None
    _batches: int = 1

    def batches(self, *, read: bool = True) -> int:
        """Return how many the next run has; `read`: they are read before they are recorded."""
        if self.given is not None:
            return self.given
        return min(self._batches, MOST_BATCHES if read else MOST_UNREAD_BATCHES)

    def learn(self, num_batches: int, fit: Fit) -> None:
        """Take note of how the rows of a run of so many batches fit, on the rank where they fit least."""
        if fit == Fit.NOT:
            self._batches = max(1, self._batches // 2)
        elif fit == Fit.TWICE and num_batches >= self._batches:
            self._batches = min(2 * self._batches, MOST_UNREAD_BATCHES)


def in_runs(
    items: Iterable[Item],
    most_batches: Callable[[], int],
    num_events: Callable[[Item], int],
    most_events: float = MOST_EVENTS,
) -> Iterator[list[Item]]:
    """Put batches together, at most so many and about so many events. What comes before an error is passed on
    before the error."""
    run: list[Item] = []
    events = 0
    try:
        for item in items:
            run.append(item)
            events += num_events(item)
            if len(run) >= most_batches() or events >= most_events:
                yield run
                run, events = [], 0
    except Exception:
        if run:
            yield run
        raise
    if run:
        yield run
