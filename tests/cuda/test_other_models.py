"""Models without rows train on emulated GPUs as on the host, and a step of theirs waits for nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cuda.conftest import Comparer
from tests.cuda.test_training import require_no_problem, require_no_waits, require_same
from tests.support.training_runs import small_config
from tpnet_dist.config.model_configs import model_config_type
from tpnet_dist.config.schema import Config
from tpnet_dist.models.registry import MODELS

MOST_KERNELS, MOST_COPIES = 600, 16
"""Of a step in the default depth. TPNet's own budget is in `test_step_counts`."""
CAWN = {"position_width": 8, "edge_channels": 8, "heads": 2}
SMALL: dict[str, dict[str, Any]] = {
    "dygformer": {"sequence_length": 8, "patch_size": 2, "part_channels": 4, "channels": 16, "time_width": 8},
    "graphmixer": {"neighbors": 4, "channels": 16, "time_width": 8},
    "tcl": {"neighbors": 4, "channels": 16, "time_width": 8},
    "tgat": {"neighbors": 3, "channels": 16, "time_width": 8},
    "cawn": {"neighbors": 4, "channels": 16, "time_width": 8, **CAWN},
}  # fmt: skip


def small(folder: Path, name: str) -> Config:
    model = model_config_type(name)(dropout=0.0, **SMALL[name])
    training = {"batch_size": 40, "epochs": 1, "max_steps": 4}
    return replace(small_config(folder, training=training), model=model)


def test_no_model_is_missing_here() -> None:
    assert {*SMALL, "tpnet"} == set(MODELS)


@pytest.mark.parametrize("name", SMALL)
def test_it_trains_as_on_the_host_and_waits_for_nothing(
    compare: Comparer, tied_folder: Path, name: str
) -> None:
    found = compare(small(tied_folder, name), 2)
    require_same(found)
    require_no_problem(found)
    for rank in found.ranks:
        require_no_waits(rank)
        for step in rank.steps[1:-1]:
            assert 0 < sum(step.kernels.values()) <= MOST_KERNELS, dict(step.kernels)
            assert 1 <= sum(step.copies.values()) <= MOST_COPIES
