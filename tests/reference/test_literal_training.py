"""The benchmark's competitor computes what the trainer computes, so that nothing but their speed differs."""

from itertools import islice
from pathlib import Path

import pytest

from benchmarks.contestants import Published, Trainer
from benchmarks.rank_pool import RankPools
from tests.support.event_logs import random_log
from tpnet_dist.batches.link_batches import rows_ahead
from tpnet_dist.config.schema import Config, DataConfig, MemoryConfig, TrainingConfig
from tpnet_dist.distributed.world import World
from tpnet_dist.models.tpnet.config import TPNetConfig
from tpnet_dist.models.tpnet.published_names import to_published

STEPS = 4


def losses_of_both(world: World, folder: str) -> tuple[list[float], list[float]]:
    config = Config(
        data=DataConfig(folder=folder, new_node_share=0.05),
        memory=MemoryConfig(decay=1e-3, width=24),
        model=TPNetConfig(profile="published", dropout=0.0, neighbors=6, channels=12, time_width=8),
        training=TrainingConfig(batch_size=20, learning_rate=1e-2),
    )
    ours = Trainer(config, world)
    memory, step = ours.parts.memory, ours.parts.step
    theirs = Published(config, memory.table.rows_NLD[:, 0].clone())
    literal, width = theirs.literal, theirs.feature_width
    literal.model.load_state_dict(to_published(ours.parts.model, node_width=width, edge_width=width))
    our_losses, their_losses = [], []
    rows_of_batches = rows_ahead(memory, islice(ours.to_learn, STEPS), prefetch=0)
    for (planned, rows), batch in zip(rows_of_batches, theirs.to_learn, strict=False):
        outcome = step([(planned, rows)], num_batches=1, num_events=len(batch))
        negative_B = planned.nodes_U[planned.blocks[0].ends_BS[:, 2]].numpy()
        our_losses.append(float(outcome.loss))
        their_losses.append(literal.learn(batch, negative_B, theirs.train_neighbors))
    return our_losses, their_losses


def test_trainer_and_literal_training_have_the_same_losses(rank_pools: RankPools, tmp_path: Path) -> None:
    random_log(tmp_path / "log", 600, 40)
    [(ours, theirs)] = rank_pools[1].run(losses_of_both, str(tmp_path / "log"))
    assert len(ours) == STEPS
    assert ours == pytest.approx(theirs, abs=1e-5)
