"""What the bar says of training steps."""

import torch

from tests.rank_pool import world_of_one
from tpnet_dist.ranks.account import ExchangeAccount
from tpnet_dist.training.display import Display
from tpnet_dist.training.progress import Progress
from tpnet_dist.training.step_meter import StepMeter
from tpnet_dist.training.train_step import StepOutcome


class Notes(Display):
    """Keeps what it is to show."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def advance(self, events: int, note: str = "") -> None:
        self.notes.append(note)


def test_bytes_are_those_of_the_steps_looked_at() -> None:
    account, notes = ExchangeAccount(bytes_received=10**9), Notes()
    outcome = StepOutcome(torch.tensor(0.5), torch.ones(3), torch.zeros(3))
    with world_of_one():
        meter = StepMeter(0, Progress(), None, notes, account)
        for received in (8_000, 2_000, 0):
            account.bytes_received += received
            meter.add(outcome, batches=range(1), num_events=4)
            meter.look()
    told = [note.partition(", AP 1.0000")[2] for note in notes.notes]
    assert told == [", 2.0 KB/event to each rank", ", 0.5 KB/event to each rank", ""]
