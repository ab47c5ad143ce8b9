"""What the bar says of training steps."""

import pytest
import torch

from benchmarks.rank_pool import world_of_one
from tests.support.sentences import refused
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.exchange_stats import ExchangeStats
from tpnet_dist.files.progress import Display
from tpnet_dist.models.tpnet.config import TPNetConfig
from tpnet_dist.training.progress import Progress
from tpnet_dist.training.step_meter import StepMeter, remedy_of
from tpnet_dist.training.train_step import StepOutcome


class Notes(Display):
    """Keeps what it is to show."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def advance(self, count: int, note: str = "", *, position: int | None = None) -> None:
        self.notes.append(note)


def no_remedy() -> str:
    raise AssertionError("every loss is a number")


def test_rows_exchanged_are_those_of_the_steps_looked_at() -> None:
    stats = ExchangeStats(bytes_received=10**9, rows_needed=10**6, rows_borrowed=10**6)
    notes, outcome = Notes(), StepOutcome(torch.tensor(0.5), torch.ones(3), torch.zeros(3))
    with world_of_one():
        meter = StepMeter(0, Progress(), None, notes, stats, no_remedy)
        for received, needed, borrowed in ((8_000, 10, 10), (2_000, 10, 5), (0, 0, 0)):
            stats.bytes_received += received
            stats.rows_needed += needed
            stats.rows_borrowed += borrowed
            meter.add(outcome, batches=range(1), num_events=4)
            meter.look()
        exchanged = meter.exchanged(torch.device("cpu"))
    told = [note.partition(", AP 1.0000")[2] for note in notes.notes]
    assert told == [", 2.0 KB/event to each rank", ", 0.5 KB/event to each rank", ""]
    assert exchanged == {"bytes_per_event": 10_000 / 12, "remote_rows_held": 0.25}


def test_one_rank_has_exchanged_nothing() -> None:
    with world_of_one():
        meter = StepMeter(0, Progress(), None, Notes(), ExchangeStats(), no_remedy)
        assert meter.exchanged(torch.device("cpu")) == {}


@pytest.mark.parametrize(("batches_per_step", "steps"), [(1, 10), (2, 5), (3, 3), (8, 1), (200, 1)])
def test_a_step_of_many_batches_does_not_wait_long_to_be_looked_at(batches_per_step: int, steps: int) -> None:
    """Where steps are looked at, ranks agree to stop, and a launcher waits for that for half a minute."""
    outcome = StepOutcome(torch.tensor(0.5), torch.ones(3), torch.zeros(3))
    with world_of_one():
        meter = StepMeter(0, Progress(), None, Notes(), ExchangeStats(), no_remedy, batches_per_step)
        for step in range(1, 2 * steps + 1):
            meter.add(outcome, batches=range(batches_per_step), num_events=4)
            assert meter.has_seen_all == (step % steps == 0)


@pytest.mark.parametrize("batches", [range(1), range(4, 6)], ids=str)
def test_epoch_step_and_batches_are_counted_from_one(batches: range) -> None:
    progress = Progress()
    progress.count_step(4)
    outcome = StepOutcome(torch.tensor(torch.nan), torch.ones(3), torch.zeros(3))
    with world_of_one():
        meter = StepMeter(0, progress, None, Notes(), ExchangeStats(), lambda: "do this", len(batches))
        meter.add(outcome, batches=batches, num_events=4)
        with refused():
            meter.look()


def test_a_remedy_names_only_files_that_there_are() -> None:
    advice = "start again in another --run-dir with a lower training.learning_rate"
    best, last = (
        "; --model.weights takes the best.pt of this one",
        "; its last checkpoint, of step 7, is from before",
    )
    validated = Progress(epoch=1, step=7, best_epoch=0, best_ap=0.5)
    assert remedy_of(Config(), Progress(), "") == advice
    assert remedy_of(Config(), Progress(step=7), "step 7") == advice + last
    assert remedy_of(Config(), validated, "step 7") == advice + best + last


def test_a_remedy_does_not_advise_what_is_so_already() -> None:
    unscaled = Config(model=TPNetConfig(scale=False))
    assert "or with model.scale true" in remedy_of(unscaled, Progress(), "")
    assert "model.scale" not in remedy_of(Config(), Progress(), "")
