"""What goes wrong on real GPUs is found on emulated ones: each rule is broken once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cuda import jobs
from tests.cuda.conftest import NO_DROPOUT
from tests.cuda.jobs import Watched, trained
from tests.support.emulated_cuda.ranks import EmulatedRanks
from tests.support.training_runs import small_config

Break = Callable[[Callable[[], None], int], list[Watched]]


@pytest.fixture
def break_by(emulated: EmulatedRanks, small_folder: Path, tmp_path: Path) -> Break:
    """Train three steps on so many emulated GPUs after something was done to break them."""
    training: dict[str, Any] = {"batch_size": 40, "epochs": 1, "max_steps": 3}
    config = small_config(small_folder, model=NO_DROPOUT, training=training)
    return lambda sabotage, ranks: emulated.run(trained, config, tmp_path / "run", sabotage, ranks=ranks)


def problems_of(rank: Watched) -> str:
    return "\n".join(rank.problems)


def test_an_event_that_waits_for_nothing_is_a_race(break_by: Break) -> None:
    [alone] = break_by(jobs.waits_for_nothing, 1)
    assert "race: " in problems_of(alone)


def test_a_dropped_record_stream_is_found_where_memory_is_freed(break_by: Break) -> None:
    [alone] = break_by(jobs.forgets_streams, 1)
    assert "reuse: memory is freed" in problems_of(alone)


def test_a_tensor_of_the_host_over_nccl_is_found(break_by: Break) -> None:
    for rank in break_by(jobs.sums_on_host, 2):
        assert "a tensor of the host travels over NCCL in allreduce" in problems_of(rank)


def test_a_stray_item_is_a_wait_in_every_step(break_by: Break) -> None:
    [alone] = break_by(jobs.looks_at_losses, 1)
    for step in alone.steps:
        assert "a number is read" in {reason for _, reason in step.waits}


def test_a_thread_that_sets_no_device_touches_the_first(break_by: Break) -> None:
    _, second = break_by(jobs.sets_no_device, 2)
    assert second.devices == {0, 1}


def test_a_group_without_its_device_is_found(break_by: Break) -> None:
    for rank in break_by(jobs.makes_groups_lazily, 2):
        assert "has no device_id" in problems_of(rank)


def test_a_collective_of_another_thread_is_found(break_by: Break) -> None:
    for rank in break_by(jobs.lends_in_the_thread, 2):
        assert rank.launchers - {"main", "backward"}
