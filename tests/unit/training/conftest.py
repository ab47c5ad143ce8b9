"""A run that has saved three checkpoints and its best weights."""

from pathlib import Path

import pytest
import torch

from benchmarks.rank_pool import world_of_one
from tests.support.checkpoints import engine_of, folder_at, small_model
from tpnet_dist.models.tpnet.model import TPNet
from tpnet_dist.training.progress import Progress


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, TPNet, Progress]:
    model, progress = small_model(), Progress(epoch=1, steps_of_epoch=3, step=8, best_epoch=1, best_ap=0.5)
    with world_of_one() as world:
        engine = engine_of(model)
        engine.learn(sum((weight.sum() for weight in model.parameters()), torch.zeros(())))
        engine.step()
        folder = folder_at(tmp_path, world)
        folder.save_best(model, progress)
        for progress.step in (4, 6, 8):
            folder.save(engine, progress)
    return tmp_path, model, progress
