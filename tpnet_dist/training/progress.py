"""Where a seed's training stands; saved whole with every checkpoint."""

from dataclasses import dataclass

from tpnet_dist.config.schema import TrainingConfig


@dataclass
class Progress:
    """Where a seed's training stands, between two steps."""

    epoch: int = 0
    """The epoch under way, from 0."""
    steps_of_epoch: int = 0
    """Steps done in it."""
    loss_sum: float = 0.0
    """Of these steps."""
    step: int = 0
    """Steps done in all."""
    best_epoch: int = -1
    best_ap: float = -1.0
    """On validation."""
    seconds: float = 0.0
    """Spent in training steps, waiting for their losses included."""
    events: int = 0
    """Learned from in that time."""
    is_done: bool = False

    def count_step(self, num_events: int) -> None:
        self.step, self.steps_of_epoch = self.step + 1, self.steps_of_epoch + 1
        self.events += num_events

    def end_epoch(self, config: TrainingConfig) -> None:
        """Go on to the next, unless there is none or no hope."""
        self.epoch, self.steps_of_epoch, self.loss_sum = self.epoch + 1, 0, 0.0
        self.decide_whether_done(config)

    def decide_whether_done(self, config: TrainingConfig) -> None:
        """Anew where a run goes on, since it may have been given more epochs."""
        is_last = self.epoch >= config.epochs
        has_stalled = self.epoch - 1 - self.best_epoch >= config.patience
        is_stopped = config.max_steps is not None and self.step >= config.max_steps
        self.is_done = self.steps_of_epoch == 0 and (is_last or has_stalled or is_stopped)
