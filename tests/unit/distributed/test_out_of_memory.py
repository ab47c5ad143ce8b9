"""A device without memory left gets one sentence that says where, and what would take less."""

from dataclasses import replace
from unittest.mock import patch

import pytest
import torch

from benchmarks.rank_pool import world_of_one
from tests.support.sentences import refused
from tpnet_dist.distributed.out_of_memory import out_of_memory_told

GIB = 1 << 30


def test_what_torch_refuses_is_told_with_a_remedy() -> None:
    with world_of_one() as world, refused(), out_of_memory_told(world):
        world.phase.now = "training, epoch 1, step 7"
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2.00 GiB.")


@pytest.mark.parametrize("reserved", [23, 18])
def test_a_gpu_says_how_much_is_held_and_whether_pieces_are_too_small(reserved: int) -> None:
    with (
        world_of_one() as world,
        patch("torch.cuda.mem_get_info", return_value=(GIB, 24 * GIB)),
        patch("torch.cuda.memory_allocated", return_value=17 * GIB),
        patch("torch.cuda.memory_reserved", return_value=reserved * GIB),
        refused(),
        out_of_memory_told(replace(world, device=torch.device("cuda", 0))),
    ):
        raise torch.OutOfMemoryError("CUDA out of memory.")


def test_other_errors_pass() -> None:
    with world_of_one() as world, pytest.raises(RuntimeError, match="shape"), out_of_memory_told(world):
        raise RuntimeError("shape")
