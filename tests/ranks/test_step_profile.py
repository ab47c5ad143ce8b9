"""`--profile`: every rank writes a trace with all phases, the table adds up, and losses stay the same."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.rank_pool import RankPools
from tests.ranks.test_training_parity import train_on
from tests.support.training_runs import small_config, small_log
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.world import World
from tpnet_dist.training.step_profile import (
    EXCHANGE_PHASES,
    MODEL_PHASES,
    WARM_UP_STEPS,
    ProfileRequest,
    exposed_share,
    show,
    with_idle,
)

STEPS = 4


def train_profiled(world: World, config: Config, run: Path, traces: Path) -> dict[str, Any]:
    return train_on(world, config, run, ProfileRequest(STEPS, traces))


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_each_rank_writes_a_trace_and_trains_as_without(
    rank_pools: RankPools, tmp_path: Path, num_ranks: int
) -> None:
    config = small_config(small_log(tmp_path / "log"), training={"epochs": 1})
    pool = rank_pools[num_ranks]
    profiled = pool.run(train_profiled, config, tmp_path / "profiled", tmp_path / "traces")
    assert profiled == pool.run(train_on, config, tmp_path / "plain")
    for rank in range(num_ranks):
        spans = spans_of(tmp_path / "traces" / f"rank-{rank}.json.gz")
        assert len([name for name, _ in spans if name.startswith("ProfilerStep")]) == STEPS
        threads = dict(spans)
        assert threads["score"] == threads["backward"] == threads["optimizer"] == threads["wait"]
        assert threads["read"] == threads["record"] != threads["score"]


def spans_of(path: Path) -> list[tuple[str, int]]:
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    return [(event["name"], event["tid"]) for event in events if event.get("cat") == "user_annotation"]


@pytest.mark.parametrize("steps", [3, WARM_UP_STEPS])
def test_an_epoch_without_steps_to_trace_leaves_none(
    rank_pools: RankPools, tmp_path: Path, steps: int
) -> None:
    config = small_config(small_log(tmp_path / "log"), training={"max_steps": steps})
    rank_pools[1].run(train_profiled, config, tmp_path / "run", tmp_path / "traces")
    assert not (tmp_path / "traces").exists()


def test_the_table_shows_each_rank_and_the_share_of_the_mean() -> None:
    phases = dict.fromkeys((*MODEL_PHASES, *EXCHANGE_PHASES), 0.01)
    measured = [{**phases, "step": 0.1, "wait": 0.002}, {**phases, "step": 0.3, "wait": 0.008}]
    by_rank = [with_idle(each) for each in measured]
    console = Console(record=True, width=100)
    show(by_rank, 7, console)
    text = console.export_text()
    assert "7 steps" in text and "rank 1" in text
    assert cells_of("wait", text) == ["2.0", "8.0", "2.5%"]
    # 100 - 52 and 300 - 58 ms: the exchange runs beside the model
    assert cells_of("idle", text) == ["48.0", "242.0", "72.5%"]
    assert exposed_share(by_rank) == pytest.approx((0.005 + 0.01) / 0.2)


def cells_of(phase: str, text: str) -> list[str]:
    [row] = [line for line in text.splitlines() if f" {phase} " in line]
    return [cell.strip() for cell in row.split("│")[3:6]]


def test_phases_that_overlap_the_end_of_a_step_leave_nothing_idle() -> None:
    assert with_idle({**dict.fromkeys(MODEL_PHASES, 0.02), "step": 0.1})["idle"] == 0.0
