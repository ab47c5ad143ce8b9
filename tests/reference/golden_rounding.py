"""How far rounding alone moves training losses.

A trained frequency that is off by 1e-10 turns a phase by 1e-4 at times of a million seconds, and Adam makes a
step of about the same size of any gradient. So roundings grow from step to step, in the released code as in
ours. How far is measured: we train again, several times, with every number of every gradient off at random,
by as much as that of the file's first gradients is off ours.
"""

from copy import deepcopy
from pathlib import Path

import torch
from torch import Tensor

from tests.reference.golden_baseline import GRADIENTS, BaselineFile, BaselineRank
from tests.reference.golden_file import Array
from tpnet_dist.distributed.world import World
from tpnet_dist.training.engine import DdpEngine

NUM_TRIALS = 16


def losses_moved(world: World, path: Path, folder: Path) -> Array:
    """The most that a trial moves each loss; the same on every rank."""
    golden = BaselineFile(path)
    rank = BaselineRank(golden, folder, world)
    engine, model = rank.parts.step.engine, rank.parts.model
    assert isinstance(engine, DdpEngine)
    off = _off(rank)
    losses = rank.losses()
    generator = torch.Generator().manual_seed(0)

    def add_noise(*_: object) -> None:
        for name, weight in model.named_parameters():
            if weight.grad is not None:
                weight.grad += off[name] * torch.randn(weight.grad.shape, generator=generator)

    engine._optimizer.register_step_pre_hook(add_noise)
    moved = torch.zeros_like(losses)
    for _ in range(NUM_TRIALS):
        rank.names.load(model, golden.weights)
        engine._optimizer.state.clear()
        moved = torch.maximum(moved, (rank.losses() - losses).abs())
    return moved.numpy()


def _off(rank: BaselineRank) -> dict[str, Tensor]:
    """How far each number of the first gradients is off that of the file."""
    like = deepcopy(rank.parts.model)
    rank.names.load(like, {**rank.golden.weights, **rank.golden.named(GRADIENTS)})
    wanted = like.state_dict()
    return {name: (gradient - wanted[name]).abs() for name, gradient in rank.first_gradients().items()}
