"""Figures of devices: known by name or read from a file, and one sentence for what is neither."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.sentences import refused
from tpnet_dist.sizing.devices import device_named


@pytest.mark.parametrize("name", ["rtx3090", "a100", "h100", "cpu"])
def test_devices_come_with_the_package_and_say_where_figures_are_from(name: str) -> None:
    device = device_named(name)
    assert device.source and device.flops > 1e9 and device.memory_bytes > 1e9


def test_a_3090_is_what_its_maker_says() -> None:
    device = device_named("rtx3090")
    assert device.memory_bytes == 24 * 2**30
    assert (device.flops, device.bandwidth) == (35.58e12, 936.2e9)


def test_ranks_of_several_hosts_share_their_network() -> None:
    device = device_named("rtx3090")
    assert device.link_bytes_per_second(4) == pytest.approx(10e9, rel=0.01), "through the host, as assumed"
    # of 8 ranks, a rank sends 4 of 7 parts to the other host, and four share 1.25 GB/s
    assert device.link_bytes_per_second(8) == pytest.approx(0.7 * 1.25e9 / 4 * 7 / 4)


def test_a_ring_of_gradients_has_the_whole_network_of_a_host() -> None:
    device = device_named("rtx3090")
    assert device.ring_bytes_per_second(4) == device.link_bytes_per_second(4)
    assert device.ring_bytes_per_second(8) == pytest.approx(0.7 * 1.25e9)
    assert device_named("a100").ring_bytes_per_second(16) == pytest.approx(0.7 * 200e9)


def test_each_doubling_of_ranks_adds_the_latency_of_two() -> None:
    device = device_named("rtx3090")
    times = [device.seconds_to_meet(ranks) / device.seconds_per_collective for ranks in (1, 2, 3, 4, 1024)]
    assert times == pytest.approx([0, 1, 2, 2, 10])


REFUSED = (
    'flops = 1e12\ncolour = "red"\n',
    "flop = 1e12\n",
    "flops = 1e12\n",
    "flops = \n",
    "\ufeffflop = 1e12\n",
    f"flops = {'[' * 9999}",
    'title = "x"\nsource = "y"\nmemory_bytes = "24 GB"\nflops = 1e12\nbandwidth = 1e9\nlink_bandwidth = 1e9\n'
    "network_bandwidth = 1e9\nhost_memory_bytes = 1\nranks_per_host = 1\nbase_bytes = 1\n",
)


@pytest.mark.parametrize("text", REFUSED)
def test_a_file_that_describes_no_device_gets_one_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with refused():
        device_named(str(path))


@pytest.mark.parametrize(
    ("name", "value"),
    [("flops", math.inf), ("flops", math.nan), ("ranks_per_host", 2.5)],
)
def test_a_figure_must_be_one_to_calculate_with(name: str, value: float) -> None:
    with refused():
        replace(device_named("rtx3090"), **{name: value})


def test_an_unknown_name_gets_the_nearest() -> None:
    with refused():
        device_named("rtx3080")
    with refused():
        device_named("abacus")
