"""Counted work is the work there is."""

from dataclasses import replace

import pytest

from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.models.dygformer.config import DyGFormerConfig
from tpnet_dist.models.registry import spec_of
from tpnet_dist.sizing.memory_sizes import step_bytes_of
from tpnet_dist.sizing.model_cost import few_events, scoring_cost, training_cost, weight_count

CONFIG = Config()
LOG = LogShape.random(100_000)


def test_two_small_slices_tell_what_a_larger_one_costs() -> None:
    """Counted at 4 and 12 events; here at 30."""
    from tpnet_dist.sizing.model_cost import _count, _learn

    config = replace(CONFIG, memory=replace(CONFIG.memory, width=120))
    counted = _count(config, replace(LOG, num_events=1, num_nodes=1), 30, _learn)
    predicted = training_cost(CONFIG, LOG, 30)
    for name, value in vars(counted).items():
        assert getattr(predicted, name) == pytest.approx(value, rel=0.02), name


def test_products_of_the_mixer_are_all_counted() -> None:
    """Most of the work is to mix channels of the 4 × 20 tokens of an event's two links: two products a layer,
    of which the very last is of their mean."""
    tokens = 200 * 4 * 20
    products = 2 * 172 * 688 * (3 * tokens + tokens / 20)
    assert products < scoring_cost(CONFIG, LOG, 200).flops < 2 * products
    assert 3 * products < training_cost(CONFIG, LOG, 200).flops < 6 * products


def test_learning_costs_three_times_scoring_and_more() -> None:
    """A product forward is two backward; and with dropout the last product is not of means."""
    learned, scored = training_cost(CONFIG, LOG, 100), scoring_cost(CONFIG, LOG, 100)
    assert 3 < learned.flops / scored.flops < 4
    assert scored.saved_bytes == 0 < learned.saved_bytes


def test_weights_are_the_models() -> None:
    wide = replace(LOG, edge_width=172)
    model = spec_of(CONFIG).make(CONFIG, LogShape(1000, 100, edge_width=172))
    assert weight_count(CONFIG, wide) == sum(weight.numel() for weight in model.parameters())
    assert few_events(CONFIG, wide, 3).edge_features_BSMF is not None


@pytest.mark.parametrize(
    ("memory", "model"),
    [
        ({}, {}),
        ({"width": 4000}, {}),
        ({"width": 500, "hops": 1}, {"neighbors": 50}),
        ({"enabled": False}, {"mixer_layers": 4, "channels": 344}),
    ],
)
def test_what_a_run_refuses_to_start_without_is_most_of_what_a_step_takes(
    memory: dict[str, int], model: dict[str, int]
) -> None:
    config = replace(CONFIG, memory=replace(CONFIG.memory, **memory), model=replace(CONFIG.model, **model))
    cost = training_cost(config, LOG, 200)
    assert 0.6 < step_bytes_of(config, LOG, 1) / (cost.saved_bytes + 2 * cost.largest_bytes) <= 1
    assert step_bytes_of(config, LOG, 4) == step_bytes_of(config, LOG, 1) / 4


@pytest.mark.parametrize(("sequence_length", "patch_size"), [(32, 1), (256, 8), (512, 16)])
def test_what_dygformer_keeps_is_most_of_what_its_step_takes(sequence_length: int, patch_size: int) -> None:
    model = DyGFormerConfig(sequence_length=sequence_length, patch_size=patch_size)
    config = Config(model=model)
    cost = training_cost(config, LOG, 200)
    assert 0.6 < step_bytes_of(config, LOG, 1) / (cost.saved_bytes + 2 * cost.largest_bytes) <= 1
