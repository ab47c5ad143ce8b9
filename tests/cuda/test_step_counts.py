"""What a training step of 200 events asks of the device, in the model's full depth, stays within a budget."""

from pathlib import Path
from typing import Literal

import pytest

from tests.cuda.jobs import StepCounts, Watched, trained
from tests.support.emulated_cuda.ranks import EmulatedRanks
from tests.support.training_runs import small_log
from tpnet_dist.config.schema import Config, DataConfig, MemoryConfig, TrainingConfig
from tpnet_dist.models.tpnet.config import TPNetConfig

MOST_KERNELS = {"float32": 400, "bfloat16": 480}
COPIES, COPIES_OF_RUNS = 1, 2
"""Of a batch; beside it, where several ranks begin a run."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("counts") / "log", 1500)


def full_depth(log: Path, precision: Literal["float32", "bfloat16"]) -> Config:
    """Narrow, since widths change no count."""
    return Config(
        data=DataConfig(folder=str(log)),
        memory=MemoryConfig(width=16),
        model=TPNetConfig(channels=16, time_width=8),
        training=TrainingConfig(epochs=1, precision=precision),
    )


def by_part(step: StepCounts) -> str:
    counts: dict[str, int] = {}
    for (where, _), count in step.kernels.items():
        counts[where.split(":")[0]] = counts.get(where.split(":")[0], 0) + count
    return ", ".join(f"{where} {count}" for where, count in sorted(counts.items(), key=lambda each: -each[1]))


def require_budget(rank: Watched, precision: str, copies: int) -> None:
    later = rank.steps[1:]
    assert len(later) > 1
    for step in later:
        assert 150 < sum(step.kernels.values()) <= MOST_KERNELS[precision], by_part(step)
        assert COPIES <= sum(step.copies.values()) <= copies, step.copies
        assert not step.waits


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_step_stays_within_its_budget(
    emulated: EmulatedRanks, log: Path, tmp_path: Path, precision: Literal["float32", "bfloat16"]
) -> None:
    [alone] = emulated.run(trained, full_depth(log, precision), tmp_path / "run")
    require_budget(alone, precision, COPIES)


def test_ranks_send_little_more_when_a_run_begins(emulated: EmulatedRanks, log: Path, tmp_path: Path) -> None:
    for rank in emulated.run(trained, full_depth(log, "float32"), tmp_path / "run", ranks=2):
        require_budget(rank, "bfloat16", COPIES + COPIES_OF_RUNS)
