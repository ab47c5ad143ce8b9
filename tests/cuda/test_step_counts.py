"""What a training step of 200 events asks of the device, in the model's full depth, stays within a budget."""

from pathlib import Path
from typing import Literal

import pytest

from tests.cuda.jobs import StepCounts, Watched, trained
from tests.support.emulated_cuda.ranks import EmulatedRanks
from tests.support.training_runs import small_log
from tpnet_dist.config.schema import Config, DataConfig, MemoryConfig, TrainingConfig
from tpnet_dist.events.reader import EventLog
from tpnet_dist.models.tpnet.config import TPNetConfig
from tpnet_dist.sizing.model_cost import training_cost
from tpnet_dist.sizing.step_time import OPERATIONS_BESIDE_MODEL

MOST_KERNELS = 400
PLANNED_WITHIN = 0.08
COPIES, COPIES_OF_RUNS = 1, 2
"""Of a batch; beside it, where several ranks begin a run."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("counts") / "log", 1500)


def full_depth(log: Path, precision: Literal["float32", "bfloat16"]) -> Config:
    """Narrow, since of widths it counts only whether they are multiples of 8; 12 is as little one as 172."""
    return Config(
        data=DataConfig(folder=str(log)),
        memory=MemoryConfig(width=16),
        model=TPNetConfig(channels=12, time_width=8),
        training=TrainingConfig(epochs=1, precision=precision),
    )


def by_part(step: StepCounts) -> str:
    counts: dict[str, int] = {}
    for (where, _), count in step.kernels.items():
        counts[where.split(":")[0]] = counts.get(where.split(":")[0], 0) + count
    return ", ".join(f"{where} {count}" for where, count in sorted(counts.items(), key=lambda each: -each[1]))


def require_budget(rank: Watched, copies: int) -> None:
    # the first settles buckets, and the last finds no batch after it whose rows it launches
    later = rank.steps[1:-1]
    assert len(later) > 1
    for step in later:
        assert 150 < sum(step.kernels.values()) <= MOST_KERNELS, by_part(step)
        assert COPIES <= sum(step.copies.values()) <= copies, step.copies
        assert not step.waits


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_step_stays_within_its_budget(
    emulated: EmulatedRanks, log: Path, tmp_path: Path, precision: Literal["float32", "bfloat16"]
) -> None:
    config = full_depth(log, precision)
    [alone] = emulated.run(trained, config, tmp_path / "run")
    require_budget(alone, COPIES)
    # the planner leaves out what makes rows of bfloat16 begin at borders of 16 bytes
    planned = training_cost(config, EventLog(log).shape, 200, on_gpu=True).operations
    for step in alone.steps[1:-1]:
        counted = sum(step.kernels.values())
        assert planned + OPERATIONS_BESIDE_MODEL == pytest.approx(counted, rel=PLANNED_WITHIN), counted


def test_ranks_send_little_more_when_a_run_begins(emulated: EmulatedRanks, log: Path, tmp_path: Path) -> None:
    for rank in emulated.run(trained, full_depth(log, "float32"), tmp_path / "run", ranks=2):
        require_budget(rank, COPIES + COPIES_OF_RUNS)
