"""When training is over: by epochs, patience or steps, and when it goes on after all."""

from tpnet_dist.config.schema import TrainingConfig
from tpnet_dist.training.progress import Progress


def test_training_ends_with_epochs_patience_or_steps() -> None:
    config = TrainingConfig(epochs=5, patience=2)
    assert _ends(Progress(epoch=4, best_epoch=4), config)
    assert not _ends(Progress(epoch=3, best_epoch=3), config)
    assert _ends(Progress(epoch=3, best_epoch=1), config)
    assert not _ends(Progress(epoch=3, best_epoch=2), config)
    assert _ends(Progress(epoch=0, best_epoch=0, step=7), TrainingConfig(max_steps=7))


def test_a_run_that_was_over_goes_on_with_more_epochs() -> None:
    progress = Progress(epoch=1, best_epoch=1)
    assert _ends(progress, TrainingConfig(epochs=2))
    progress.decide_whether_done(TrainingConfig(epochs=3))
    assert not progress.is_done
    progress = Progress(epoch=5, steps_of_epoch=3, step=60)
    progress.decide_whether_done(TrainingConfig(epochs=2))
    assert not progress.is_done  # an epoch under way is evaluated first


def _ends(progress: Progress, config: TrainingConfig) -> bool:
    progress.end_epoch(config)
    return progress.is_done
