"""Others hear at once that a rank begins something else: it may stand still right afterwards."""

from tpnet_dist.distributed.phase import Phase


def test_a_change_is_told_at_once_but_not_each_step() -> None:
    told: list[str] = []
    phase = Phase()
    phase.when_it_changes = lambda: told.append(phase.now)
    for now in ("loading", "training, epoch 1, step 1", "training, epoch 1, step 2", "validation, epoch 1"):
        phase.now = now
    phase.saved = "step 2"
    assert told == ["loading", "training, epoch 1, step 1", "validation, epoch 1"]
