"""The state of a seed's training; saved whole with every checkpoint."""

from dataclasses import dataclass

from tpnet_dist.config.schema import TrainingConfig


@dataclass
class Progress:
    """Says where a seed's training stands, between two steps."""

    epoch: int = 0
    """The epoch under way, from 0."""
    steps_of_epoch: int = 0
    """Steps done in this epoch."""
    loss_sum: float = 0.0
    """Sum of the losses of these steps."""
    step: int = 0
    """Steps done in all epochs."""
    best_epoch: int = -1
    best_ap: float = -1.0
    """The best AP on validation."""
    seconds: float = 0.0
    """Seconds spent in training steps, waiting for their losses included."""
    events: int = 0
    """Events learned from in that time."""
    is_done: bool = False

    def count_step(self, num_events: int) -> None:
        self.step, self.steps_of_epoch = self.step + 1, self.steps_of_epoch + 1
        self.events += num_events

    def end_epoch(self, config: TrainingConfig) -> None:
        """Go on to the next epoch, unless this was the last or patience has run out."""
        self.epoch, self.steps_of_epoch, self.loss_sum = self.epoch + 1, 0, 0.0
        self.decide_whether_done(config)

    def decide_whether_done(self, config: TrainingConfig) -> None:
        """Decide anew whether a run that goes on is done, since it may have been given more epochs."""
        is_last = self.epoch >= config.epochs
        has_stalled = self.epoch - 1 - self.best_epoch >= config.patience
        is_stopped = config.max_steps is not None and self.step >= config.max_steps
        self.is_done = self.steps_of_epoch == 0 and (is_last or has_stalled or is_stopped)
