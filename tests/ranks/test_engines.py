"""Engines learn alike: the same gradients whoever sums them, and each goes on from where another stopped."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.rank_pool import RankFailure, RankPools
from tests.support.deepspeed_here import needs_deepspeed
from tests.unit.models.random_queries import random_model, random_query
from tpnet_dist.config.schema import Config, TrainingConfig
from tpnet_dist.distributed.gather import sum_over_ranks
from tpnet_dist.distributed.world import World
from tpnet_dist.models.common.loss import links_loss, split_logits
from tpnet_dist.training.engine import OptimizerState, Weights
from tpnet_dist.training.run_model import build_engine

pytestmark = needs_deepspeed
DDP = TrainingConfig(engine="ddp", batch_size=7)
DEEPSPEED = replace(DDP, engine="deepspeed")
BFLOAT16 = {"bf16": {"enabled": "auto"}}
EXACT_SUMS = {**BFLOAT16, "data_types": {"grad_accum_dtype": "fp32"}}


@dataclass(frozen=True)
class Lesson:
    """So many steps from a state on, each of as many batches; each batch with its number of events."""

    config: TrainingConfig
    steps: range = range(8)
    events: int = 7
    edge_width: int = 0
    weights: Weights | None = None
    optimizer: OptimizerState | None = None


@dataclass(frozen=True)
class Learned:
    losses: list[float]
    weights: Weights
    optimizer: OptimizerState
    model_type: torch.dtype
    seconds_to_wait: float


def learn(world: World, lesson: Lesson) -> Learned:
    config = lesson.config
    model = random_model(edge_width=lesson.edge_width, bfloat16=config.precision == "bfloat16")
    engine = build_engine(Config(training=config), model, world)
    if lesson.weights is not None and lesson.optimizer is not None:
        model.load_state_dict(lesson.weights)
        engine.weights_changed(lesson.weights)
        engine.load_optimizer_state(lesson.optimizer)
    microbatches = world.batch_slices(None).microbatches(lesson.events)
    losses = []
    for step in lesson.steps:
        total = torch.zeros((), dtype=torch.float64)
        for batch in range(config.batches_per_step):
            query = random_query(events=lesson.events, edge_width=lesson.edge_width, seed=100 * step + batch)
            with engine.batch(is_last=batch + 1 == config.batches_per_step):
                logits = engine.score([[query[events]] for events in microbatches])
                num_links = 2 * lesson.events * config.batches_per_step
                parts = torch.stack([links_loss(*split_logits(each)) / num_links for each in logits])
                engine.learn(parts.sum())
            total += parts.detach().double().sum()
        engine.step()
        losses.append(float(sum_over_ranks(total)))
    [weight, *_] = model.parameters()
    group = getattr(getattr(engine, "_engine", None), "seq_data_parallel_group", None)
    waits = group._get_backend(world.device).options._timeout if group else world.timeout
    return Learned(losses, engine.weights(), engine.optimizer_state(), weight.dtype, waits.total_seconds())


def learned(rank_pools: RankPools, ranks: int, lesson: Lesson) -> Learned:
    first, *others = rank_pools[ranks].run(learn, lesson)
    for other in others:
        assert other.losses == first.losses
        require_close(other.weights, first.weights, tolerance=0)
    return first


def require_close(found: Weights, wanted: Weights, *, tolerance: float) -> None:
    assert found.keys() == wanted.keys()
    for name, weight in wanted.items():
        torch.testing.assert_close(
            found[name].float(), weight.float(), rtol=tolerance, atol=tolerance, msg=name
        )


def moments(state: OptimizerState, name: str) -> Weights:
    return {weight: kept[name] for weight, kept in state.items()}


def norm_of_moments(outcome: Learned) -> float:
    return float(
        torch.cat([kept.flatten() for kept in moments(outcome.optimizer, "exp_avg").values()]).norm()
    )


LESSONS = {
    "one batch a step": Lesson(DDP),
    "three batches a step, features": Lesson(replace(DDP, batches_per_step=3), edge_width=3),
    "fewer events than ranks": Lesson(DDP, events=1),
}


@pytest.mark.parametrize("ranks", [1, 2, 3, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("lesson", LESSONS.values(), ids=list(LESSONS))
def test_deepspeed_learns_as_ddp_does(rank_pools: RankPools, lesson: Lesson, ranks: int) -> None:
    theirs = replace(lesson, config=replace(lesson.config, engine="deepspeed"))
    ddp, deepspeed = (learned(rank_pools, ranks, each) for each in (lesson, theirs))
    assert deepspeed.losses == ddp.losses
    require_close(deepspeed.weights, ddp.weights, tolerance=0)
    for name in ("exp_avg", "exp_avg_sq", "step"):
        require_close(moments(deepspeed.optimizer, name), moments(ddp.optimizer, name), tolerance=0)


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_ranks_learn_the_same_to_the_last_bit(rank_pools: RankPools, ranks: int) -> None:
    """Microbatches of ten and eleven events, and of none."""
    for events in (41, 3):
        alone, together = (learned(rank_pools, count, Lesson(DDP, events=events)) for count in (1, ranks))
        assert together.losses == alone.losses
        require_close(together.weights, alone.weights, tolerance=0)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize(
    "zero",
    [{"stage": 2, "reduce_bucket_size": 500}, {"stage": 2, "reduce_scatter": False}],
    ids=["in shares", "whole"],
)
def test_zero_stage_2_learns_the_same(
    rank_pools: RankPools, tmp_path: Path, zero: dict[str, Any], ranks: int
) -> None:
    """Moments tell a sum of gradients from their mean, which Adam's steps do not."""
    config = replace(DDP, batches_per_step=2)
    theirs = with_json(config, tmp_path, {"zero_optimization": zero})
    ddp, deepspeed = (learned(rank_pools, ranks, Lesson(each)) for each in (config, theirs))
    np.testing.assert_allclose(deepspeed.losses, ddp.losses, rtol=1e-5)
    for name in ("exp_avg", "exp_avg_sq"):
        require_close(moments(deepspeed.optimizer, name), moments(ddp.optimizer, name), tolerance=1e-5)


@pytest.mark.parametrize("ranks", [3, 4])
def test_going_on_changes_no_bit(rank_pools: RankPools, ranks: int) -> None:
    """The sum of three numbers depends on the order, which must not depend on when a process began."""
    undisturbed = learned(rank_pools, ranks, Lesson(DDP, events=40))
    half = learned(rank_pools, ranks, Lesson(DDP, range(3), events=40))
    going_on = Lesson(DDP, range(3, 8), events=40, weights=half.weights, optimizer=half.optimizer)
    rest = learned(rank_pools, ranks, going_on)
    assert [*half.losses, *rest.losses] == undisturbed.losses
    require_close(rest.weights, undisturbed.weights, tolerance=0)


@pytest.mark.parametrize(
    ("first", "then"),
    [((DDP, 2), (DEEPSPEED, 1)), ((DEEPSPEED, 2), (DDP, 1)), ((DEEPSPEED, 1), (DEEPSPEED, 2))],
)
def test_an_engine_goes_on_where_another_stopped(
    rank_pools: RankPools, first: tuple[TrainingConfig, int], then: tuple[TrainingConfig, int]
) -> None:
    undisturbed = learned(rank_pools, 1, Lesson(DDP))
    (config, ranks), (other_config, other_ranks) = first, then
    half = learned(rank_pools, ranks, Lesson(config, range(4)))
    rest = learned(
        rank_pools,
        other_ranks,
        Lesson(other_config, range(4, 8), weights=half.weights, optimizer=half.optimizer),
    )
    np.testing.assert_allclose([*half.losses, *rest.losses], undisturbed.losses, rtol=1e-5)
    require_close(rest.weights, undisturbed.weights, tolerance=1e-5)


@pytest.mark.parametrize("settings", [BFLOAT16, EXACT_SUMS], ids=["bfloat16 sums", "float32 sums"])
def test_weights_in_bfloat16_have_masters_in_float32(
    rank_pools: RankPools, tmp_path: Path, settings: dict[str, Any]
) -> None:
    """They learn about as well, and go on from these to the last bit."""
    config = with_json(replace(DEEPSPEED, precision="bfloat16", learning_rate=1e-3), tmp_path, settings)
    whole = learned(rank_pools, 2, Lesson(config))
    assert whole.model_type == torch.bfloat16
    assert all(weight.dtype == torch.float32 for weight in whole.weights.values())
    assert any((weight != weight.bfloat16()).any() for weight in whole.weights.values())
    half = learned(rank_pools, 2, Lesson(config, range(4)))
    rest = learned(rank_pools, 2, Lesson(config, range(4, 8), weights=half.weights, optimizer=half.optimizer))
    assert [*half.losses, *rest.losses] == whole.losses
    require_close(rest.weights, whole.weights, tolerance=0)
    exact = learned(rank_pools, 1, Lesson(replace(DDP, learning_rate=1e-3)))
    np.testing.assert_allclose(whole.losses, exact.losses, rtol=0.02)
    # a mean over the ranks would be half of it
    np.testing.assert_allclose(norm_of_moments(whole), norm_of_moments(exact), rtol=0.1)


def test_products_in_bfloat16_learn_alike_on_both_engines(rank_pools: RankPools) -> None:
    ddp, deepspeed = (
        learned(rank_pools, 2, Lesson(replace(config, precision="bfloat16"))) for config in (DDP, DEEPSPEED)
    )
    assert deepspeed.model_type == torch.float32
    np.testing.assert_allclose(deepspeed.losses, ddp.losses, rtol=1e-5)


def test_deepspeed_waits_for_a_stuck_rank_no_longer_than_others_do(rank_pools: RankPools) -> None:
    asked = learned(rank_pools, 2, Lesson(DDP, range(1)))
    assert learned(rank_pools, 2, Lesson(DEEPSPEED, range(1))).seconds_to_wait == asked.seconds_to_wait


def test_what_deepspeed_itself_refuses_gets_one_sentence(rank_pools: RankPools, tmp_path: Path) -> None:
    config = with_json(DDP, tmp_path, {"zero_optimization": {"stage": 1, "no_such_key": 1}})
    with pytest.raises(RankFailure, match="DeepSpeed refuses its settings"):
        rank_pools[1].run(learn, Lesson(config))


def with_json(config: TrainingConfig, folder: Path, settings: dict[str, Any]) -> TrainingConfig:
    path = folder / "deepspeed.json"
    path.write_text(json.dumps({"zero_optimization": {"stage": 1}, **settings}))
    return replace(config, engine="deepspeed", deepspeed=str(path))
