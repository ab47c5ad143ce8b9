"""How long a step takes: more batches per step share one sum of gradients and one step of Adam."""

from dataclasses import replace

import pytest

from tests.support.training_runs import SMALL_MODEL
from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.memory.run_length import MOST_BATCHES
from tpnet_dist.sizing.devices import device_named
from tpnet_dist.sizing.exchange_count import RowTraffic, expected_traffic
from tpnet_dist.sizing.model_cost import weight_count
from tpnet_dist.sizing.plan_of import make_plan
from tpnet_dist.sizing.step_time import StepTime, scoring_step_time, training_step_time

CONFIG = Config(model=SMALL_MODEL)
LOG = LogShape.random(100_000)


def step_of(batches: int) -> StepTime:
    config = replace(CONFIG, training=replace(CONFIG.training, batches_per_step=batches))
    traffic = expected_traffic(config, LOG, 2)
    return training_step_time(config, LOG, 2, device_named("cpu"), traffic)


def test_a_step_of_four_batches_takes_less_than_four_steps_of_one() -> None:
    one, four = step_of(1), step_of(4)
    assert four.products == pytest.approx(4 * one.products)
    assert one.memory < four.memory < 4 * one.memory
    assert one.link < four.link < 4 * one.link
    assert 3 * one.seconds < four.seconds < 4 * one.seconds


def test_across_hosts_gradients_are_not_slowed_by_the_rows_share_of_the_network() -> None:
    gpu, idle = device_named("rtx3090"), RowTraffic(1)
    within, across = (training_step_time(CONFIG, LOG, ranks, gpu, idle).link for ranks in (4, 8))
    collectives = (6 / MOST_BATCHES + 1) * gpu.seconds_per_collective
    weights = 4 * weight_count(CONFIG, LOG)
    assert within == pytest.approx(2 * weights * 3 / 4 / (0.32 * 31.5e9) + 2 * collectives)
    assert across == pytest.approx(2 * weights * 7 / 8 / (0.7 * 1.25e9) + 3 * collectives)


@pytest.mark.parametrize("nodes", [10**9, 10**17])
def test_among_many_nodes_no_two_draws_are_of_the_same(nodes: int) -> None:
    """Half of the slots of a slice of 100 events are the other rank's, and half of the events' partners."""
    traffic = expected_traffic(CONFIG, LogShape(10**6, nodes), 2)
    slots = 100 * 3 * (1 + CONFIG.model.neighbors)
    assert traffic.rows_borrowed / traffic.batches == pytest.approx(slots / 2 + 100, rel=0.01)


def test_runs_of_one_batch_exchange_more() -> None:
    short = replace(CONFIG, memory=replace(CONFIG.memory, run_batches=1))
    one, many = (expected_traffic(config, LOG, 2) for config in (short, CONFIG))
    assert one.batches == 1
    assert one.bytes_per_batch > 2 * many.bytes_per_batch > 0


def test_scoring_looks_up_the_neighbours_of_its_own_batches() -> None:
    small, large = (
        scoring_step_time(
            replace(CONFIG, evaluation=replace(CONFIG.evaluation, batch_size=size)),
            LOG,
            1,
            device_named("cpu"),
            RowTraffic(),
        )
        for size in (100, 400)
    )
    assert large.host == pytest.approx(4 * small.host)


def test_an_epoch_has_fewer_steps_then() -> None:
    config = replace(CONFIG, training=replace(CONFIG.training, batches_per_step=4))
    plan = make_plan(config, LOG, 2, device_named("cpu"))
    assert plan.epoch_seconds == pytest.approx(step_of(4).seconds * 0.7 * 100_000 / 800)
    assert plan.curve[1].events_per_second == pytest.approx(800 / step_of(4).seconds)
