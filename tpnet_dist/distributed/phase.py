"""What a rank is doing, in words for people: told when something goes wrong."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Phase:
    """Holds what the main loop is doing; error messages read it."""

    now: str = "the start"
    """What the rank does now, such as `training, epoch 2, step 345`."""
    command: str = ""
    """What was asked for, as it was typed."""
    again: str = "repeat the command"
    """What to do so that a run that was broken off goes on."""
    saved: str = ""
    """The place from which the run then goes on, such as `step 340`."""

    when_it_changes: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)
    """Called when the rank begins something else, but not at each step of it."""

    def __setattr__(self, name: str, value: object) -> None:
        begins = name == "now" and _kind(str(value)) != _kind(getattr(self, "now", ""))
        super().__setattr__(name, value)
        if begins:
            self.when_it_changes()

    @property
    def remedy(self) -> str:
        return f"{self.again} to go on from {self.saved}" if self.saved else self.again


def _kind(phase: str) -> str:
    return phase.partition(", step ")[0]
