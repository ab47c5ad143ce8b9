"""What a rank is doing, in words for people: told when something goes wrong."""

from dataclasses import dataclass


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

    @property
    def remedy(self) -> str:
        return f"{self.again} to go on from {self.saved}" if self.saved else self.again
