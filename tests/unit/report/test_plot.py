"""Axes and numbers of figures: round, in their place, and read as they are meant."""

import math

import pytest

from tpnet_dist.report.blocks import Text
from tpnet_dist.report.line_charts import MOST_BINS, bins
from tpnet_dist.report.numbers import amount, difference, duration, figure, size
from tpnet_dist.report.plot import Axis, axis_around, digits_of, round_step

AMOUNTS = {0: "0", 12: "12", 12.34: "12.3", 124.4: "124", 1234.5: "1,234", 0.01234: "0.0123", -1.5: "−1.50"}
SIZES = {0: "0 bytes", 1000: "1,000 bytes", 1536: "1.50 KiB", 3 * 2**29: "1.50 GiB", 2**42: "4,096 GiB"}
DURATIONS = {1.5: "1.50 seconds", 119: "119 seconds", 120: "2 minutes", 16736181: "194 days"}


@pytest.mark.parametrize("value", AMOUNTS)
def test_amounts_have_three_digits_and_whole_numbers_all(value: float) -> None:
    assert amount(value) == AMOUNTS[value]


@pytest.mark.parametrize("value", SIZES)
def test_sizes_are_in_units_people_know(value: float) -> None:
    assert size(value) == SIZES[value]


@pytest.mark.parametrize("seconds", DURATIONS)
def test_durations_are_in_units_people_know(seconds: float) -> None:
    assert duration(seconds) == DURATIONS[seconds]


def test_figures_have_four_digits_and_gaps_where_there_is_none() -> None:
    assert figure(0.97351) == Text("0.9735")
    assert figure(0.5, 0.01) == Text("0.5000", small="±0.0100")
    assert figure(None) == figure(math.nan) == Text("–")
    assert (difference(0.001), difference(-0.001), difference(0.0)) == ("+0.0010", "−0.0010", "0.0000")


def test_steps_between_ticks_are_one_two_or_five() -> None:
    steps = [round_step(step) for step in (0.011, 0.02, 0.021, 0.07, 1, 3000)]
    assert steps == pytest.approx([0.02, 0.02, 0.05, 0.1, 1, 5000])


@pytest.mark.parametrize("values", [[0.88, 0.97], [0.5], [0.0, 0.0], [1e9, 2e9], [], [math.nan, 0.3]])
def test_an_axis_holds_its_values_between_round_ends(values: list[float]) -> None:
    axis = axis_around(values, 0, 100)
    ticks = axis.ticks()
    assert ticks[0] == pytest.approx(axis.low)
    assert ticks[-1] == pytest.approx(axis.high)
    assert 2 <= len(ticks) <= 12
    for value in filter(math.isfinite, values):
        assert 0 <= axis.at(value) <= 100
    labels = [f"{tick:.{digits_of(axis)}f}" for tick in ticks]
    assert len(set(labels)) == len(labels)


def test_ticks_of_epochs_are_whole_numbers() -> None:
    assert Axis(1, 3, 0, 100).ticks(6, whole=True) == [1, 2, 3]


@pytest.mark.parametrize("num_steps", [1, MOST_BINS, MOST_BINS + 1, 100_000])
def test_losses_are_gathered_into_few_bins_and_none_is_lost(num_steps: int) -> None:
    losses = {step: float(step) for step in range(1, num_steps + 1)}
    found = bins(losses)
    assert len(found) <= MOST_BINS
    assert (found[0].low, found[-1].high) == (1.0, float(num_steps))
    assert all(each.low <= each.mean <= each.high for each in found)
