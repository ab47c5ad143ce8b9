"""Training on emulated GPUs gives what the host gives, and breaks no rule of real ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cuda.conftest import NO_DROPOUT, Comparer, Comparison
from tests.cuda.jobs import Watched
from tests.support.deepspeed_here import needs_deepspeed
from tests.support.training_runs import small_config
from tpnet_dist.config.schema import Config

SIX_DIGITS = 1e-6


def ap_of(figures: dict[str, Any], part: str) -> float:
    ap: float = figures[part]["transductive"]["random"]["ap"]
    return ap


def require_same(found: Comparison) -> None:
    first, host = found.ranks[0], found.on_host
    assert len(first.losses) == len(host["losses"]) > 2
    np.testing.assert_allclose(first.losses, host["losses"], rtol=SIX_DIGITS)
    for part in ("val", "test"):
        assert ap_of(first.figures, part) == pytest.approx(ap_of(host, part), abs=1e-6)


def require_no_problem(found: Comparison) -> None:
    for number, rank in enumerate(found.ranks):
        assert not rank.problems, f"rank {number}: {dict(rank.problems)}"
        assert rank.devices == {number}
        # one thread launches all that is the device's, and waits for the one that launches gradients
        assert rank.launchers <= {"main", "backward"}


def require_no_waits(rank: Watched) -> None:
    """But in the first step, in which data parallelism has ranks agree on its buckets."""
    assert {where.split(":")[0] for where, _ in rank.steps[0].waits} <= {"training/engine.py"}
    for step in rank.steps[1:]:
        assert not step.waits


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
class TestThreeEpochs:
    """With validation after each, on one, two and four GPUs."""

    def test_losses_and_figures_are_the_hosts(
        self, compare: Comparer, three_epochs: Config, num_ranks: int
    ) -> None:
        require_same(compare(three_epochs, num_ranks))

    def test_nothing_races_mixes_devices_or_gives_nccl_what_it_does_not_take(
        self, compare: Comparer, three_epochs: Config, num_ranks: int
    ) -> None:
        require_no_problem(compare(three_epochs, num_ranks))

    def test_all_ranks_launch_the_same_collectives_in_the_same_order(
        self, compare: Comparer, three_epochs: Config, num_ranks: int
    ) -> None:
        """Of all groups together, by the training thread and, for gradients, by the one it waits for."""
        first, *others = compare(three_epochs, num_ranks).ranks
        assert len(first.collectives) > 2 * len(first.losses) * (num_ranks > 1)
        for other in others:
            assert other.collectives == first.collectives

    def test_a_step_does_not_wait_for_the_device(
        self, compare: Comparer, three_epochs: Config, num_ranks: int
    ) -> None:
        for rank in compare(three_epochs, num_ranks).ranks:
            assert len(rank.steps) > 2
            require_no_waits(rank)


VARIANTS: dict[str, dict[str, Any]] = {
    "paper profile": {"model": {**NO_DROPOUT, "profile": "paper"}},
    "transition walk": {"model": NO_DROPOUT, "memory": {"width": 16, "walk": "transition"}},
    "two batches a step": {"model": NO_DROPOUT, "training": {"batches_per_step": 2}},
    "deterministic": {"model": NO_DROPOUT, "training": {"deterministic": True}},
    "rows on the host": {"model": NO_DROPOUT, "memory": {"width": 16, "rows_on": "host"}},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_train_as_on_the_host(compare: Comparer, small_folder: Path, variant: str) -> None:
    sections = dict(VARIANTS[variant])
    sections["training"] = {"batch_size": 40, "epochs": 1, "max_steps": 6, **sections.get("training", {})}
    found = compare(small_config(small_folder, **sections), 2)
    require_same(found)
    require_no_problem(found)
    for rank in found.ranks:
        require_no_waits(rank)
        assert rank.are_deterministic == (variant == "deterministic")


def test_rows_on_the_host_are_recorded_there_and_sent(compare: Comparer, small_folder: Path) -> None:
    training = {"batch_size": 40, "epochs": 1, "max_steps": 6}
    config = small_config(
        small_folder, model=NO_DROPOUT, memory={"width": 16, "rows_on": "host"}, training=training
    )
    for rank in compare(config, 2).ranks:
        for step in rank.steps[1:]:
            assert not [where for where, _ in step.kernels if where.startswith("memory/device_batch")]
        assert all(sum(step.copies.values()) == 1 for step in rank.steps)


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_features_and_large_groups_of_equal_times_train_as_on_the_host(
    compare: Comparer, tied_folder: Path, num_ranks: int
) -> None:
    config = small_config(
        tied_folder,
        data={"batching": "timestamps"},
        model=NO_DROPOUT,
        training={"batch_size": 40, "epochs": 1, "max_steps": 6},
    )
    found = compare(config, num_ranks)
    require_same(found)
    require_no_problem(found)
    for rank in found.ranks:
        require_no_waits(rank)


def test_bfloat16_is_near_the_hosts(compare: Comparer, small_folder: Path) -> None:
    training = {"batch_size": 40, "epochs": 1, "max_steps": 6, "precision": "bfloat16"}
    found = compare(small_config(small_folder, model=NO_DROPOUT, training=training), 2)
    np.testing.assert_allclose(found.ranks[0].losses, found.on_host["losses"], rtol=5e-3)
    require_no_problem(found)


@needs_deepspeed
def test_deepspeed_trains_as_on_the_host(compare: Comparer, small_folder: Path) -> None:
    training = {"batch_size": 40, "epochs": 1, "max_steps": 6, "engine": "deepspeed"}
    found = compare(small_config(small_folder, model=NO_DROPOUT, training=training), 2)
    require_same(found)
    first, second = found.ranks
    assert first.collectives == second.collectives
    for rank in found.ranks:
        # DeepSpeed makes a group without its device, and frees gradients of its stream in its own way
        ours = [problem for problem in rank.problems if "training/deepspeed_engine.py" not in problem]
        assert not ours and not [
            problem for problem in rank.problems if problem.startswith(("race", "mixed"))
        ]
        assert {where.split(":")[0] for step in rank.steps for where, _ in step.waits} <= {
            "training/deepspeed_engine.py"
        }
