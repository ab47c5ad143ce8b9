"""What a rank is doing, in words for people: told when something goes wrong."""

from dataclasses import dataclass


@dataclass
class Phase:
    """Marked by the main loop, read by whoever has to explain."""

    now: str = "the start"
    """`training, epoch 2, step 345`."""
    again: str = "repeat the command"
    """How a run that was broken off goes on."""
    saved: str = ""
    """From where it goes on: `step 340`."""

    @property
    def remedy(self) -> str:
        return f"{self.again} to go on from {self.saved}" if self.saved else self.again
