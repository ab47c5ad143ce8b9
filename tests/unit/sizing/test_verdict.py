"""What fits and what would: bytes that add up, remedies that help, a largest log that is one."""

from dataclasses import replace

import pytest

from tests.support.training_runs import SMALL_MODEL
from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config
from tpnet_dist.models.dygformer.config import DyGFormerConfig
from tpnet_dist.neighbors.build import MAX_EVENTS
from tpnet_dist.sizing.devices import Device, device_named
from tpnet_dist.sizing.rank_bytes import rank_bytes
from tpnet_dist.sizing.verdict import bytes_by_place, fits, largest_log, remedies

CONFIG = Config(model=SMALL_MODEL)
GPU = device_named("rtx3090")


def small_gpu(rows_bytes: int, host_bytes: int = 10**12) -> Device:
    """With room for so many bytes of rows beside all that is not rows."""
    sizes = rank_bytes(CONFIG, LogShape.random(100_000), 1, GPU)
    others = sizes.on("device", GPU) - sizes.rows
    return replace(GPU, memory_bytes=others + rows_bytes, host_memory_bytes=host_bytes)


def test_rows_and_neighbours_are_what_the_layout_says() -> None:
    sizes = rank_bytes(Config(), LogShape.random(10**8), 4, GPU)
    assert sizes.rows == -(-(2_000_000 + 1) // 4) * 4 * 190 * 4, "one row more: that of empty slots"
    assert sizes.neighbors == 10 * 2 * 10**8 * 1.7 / 4
    assert sizes.on("device", GPU) + sizes.on("host", GPU) == sizes.total
    assert sizes.on("host", GPU) == sizes.neighbors + GPU.host_base_bytes


def test_rows_of_others_that_a_run_keeps_are_counted() -> None:
    """A borrowed row takes its 3,040 bytes, a clock of 8 and a slot of 32."""
    log, row = LogShape.random(10**8), 4 * 190 * 4 + 8 + 32
    sizes = rank_bytes(Config(), log, 4, GPU)
    assert sizes.borrowed == (GPU.memory_bytes - GPU.base_bytes) // 8 // row * row, (
        "an eighth of what is free"
    )
    assert rank_bytes(Config(), log, 1, GPU).borrowed == 0, "there are no others"
    few = Config(memory=replace(Config().memory, borrowed_rows=1000))
    assert rank_bytes(few, log, 4, GPU).borrowed == 1000 * row
    remote = 2001 - -(-2001 // 4)
    assert rank_bytes(CONFIG, LogShape.random(100_000), 4, GPU).borrowed_rows == remote, "or all there are"


def test_borrowed_rows_leave_half_of_the_room_to_activations() -> None:
    log = LogShape.random(10**7)
    rows = rank_bytes(CONFIG, log, 2, GPU).rows
    device = replace(GPU, memory_bytes=GPU.base_bytes + rows + 50_000_000)
    assert 0 < rank_bytes(CONFIG, log, 2, device).borrowed < 25_000_000


def test_rows_on_their_way_between_ranks_lie_in_two_more_places() -> None:
    log, row = LogShape.random(100_000), 4 * 120 * 4
    events = {1: 200, 2: 100}
    slots = {ranks: min(3 * (1 + CONFIG.model.neighbors) * events[ranks], log.num_nodes) for ranks in (1, 2)}
    places = {1: CONFIG.memory.prefetch + 1, 2: CONFIG.memory.prefetch + 3}
    for ranks in (1, 2):
        assert rank_bytes(CONFIG, log, ranks, GPU).in_flight == places[ranks] * slots[ranks] * row


def test_without_memory_there_are_no_rows() -> None:
    config = replace(CONFIG, memory=replace(CONFIG.memory, enabled=False))
    sizes = rank_bytes(config, LogShape.random(100_000), 2, GPU)
    assert (sizes.rows, sizes.clocks, sizes.in_flight) == (0, 0, 0)
    assert sizes.borrowed == 0
    assert sizes.neighbors > 0


def test_a_log_that_does_not_fit_is_told_what_helps_and_it_does() -> None:
    log = LogShape.random(10**7)
    rows = rank_bytes(CONFIG, log, 1, GPU).rows
    device = small_gpu(rows_bytes=rows * 62 // 100)
    assert not fits(CONFIG, log, 1, device)
    [more_ranks, elsewhere, narrower, *_] = remedies(CONFIG, log, 1, device)
    assert more_ranks == "2 ranks"
    assert elsewhere.startswith("--memory.rows-on host ")
    assert narrower == "--memory.width 80 instead of 160 (coarser projections)"
    assert fits(CONFIG, log, 2, device)
    assert fits(replace(CONFIG, memory=replace(CONFIG.memory, width=80)), log, 1, device)
    assert fits(replace(CONFIG, memory=replace(CONFIG.memory, rows_on="host")), log, 1, device)


def test_rows_on_the_host_take_room_there() -> None:
    log, config = LogShape.random(10**7), replace(CONFIG, memory=replace(CONFIG.memory, rows_on="host"))
    [before, after] = (rank_bytes(each, log, 4, GPU) for each in (CONFIG, config))
    moved = after.rows + after.borrowed + after.clocks
    assert after.on("host", GPU) == before.on("host", GPU) + moved
    assert after.on("device", GPU) == before.on("device", GPU) - before.rows - before.borrowed - before.clocks


def test_more_ranks_than_a_host_takes_are_more_hosts() -> None:
    """On cores they are all that helps: ranks of one host share its memory."""
    log, cores = LogShape.random(10**7), replace(device_named("cpu"), ranks_per_host=2)
    unborrowed = replace(CONFIG, memory=replace(CONFIG.memory, borrowed_rows=0))
    [host] = bytes_by_place(rank_bytes(unborrowed, log, 2, cores), cores, 2)
    tight = replace(cores, host_memory_bytes=host.needed * 9 // 10)
    assert not fits(unborrowed, log, 2, tight)
    assert next(remedies(unborrowed, log, 2, tight)) == "4 ranks on 2 hosts"


def test_rows_of_others_may_be_what_is_too_much() -> None:
    log = LogShape.random(10**7)
    asked = replace(CONFIG, memory=replace(CONFIG.memory, borrowed_rows=100_000))
    # the rule of a run keeps half of what is left for activations: here these take more
    crowded = replace(asked, training=replace(asked.training, batch_size=20_000))
    needed = rank_bytes(crowded, log, 2, GPU)
    device = replace(GPU, memory_bytes=needed.on("device", GPU) - needed.borrowed // 4)
    assert not fits(crowded, log, 2, device)
    found = list(remedies(crowded, log, 2, device))
    assert "--memory.borrowed-rows 0 (no rows of others are kept; more traffic)" in found


def test_the_host_may_be_what_is_full() -> None:
    log = LogShape.random(100_000)
    device = small_gpu(10**12, host_bytes=1_000_000)
    on_device, on_host = bytes_by_place(rank_bytes(CONFIG, log, 1, device), device, 1)
    assert on_device.is_enough and not on_host.is_enough
    assert on_host.needed == 2 * 100_000 * 1.7 * 10 + GPU.host_base_bytes


def test_every_process_takes_room_on_its_host() -> None:
    sizes = rank_bytes(CONFIG, LogShape.random(1), 8, GPU)
    _, host = bytes_by_place(sizes, GPU, 8)
    assert host.needed > 4 * 3_000_000_000, "four ranks to a host"
    assert rank_bytes(CONFIG, LogShape.random(1), 2, device_named("cpu")).host_base == 0


@pytest.mark.parametrize("num_ranks", [1, 4])
def test_the_largest_log_fits_and_a_slightly_larger_one_does_not(num_ranks: int) -> None:
    device = small_gpu(rows_bytes=10**8)
    largest = largest_log(CONFIG, LogShape.random(100_000), num_ranks, device)
    assert largest is not None
    assert fits(CONFIG, largest, num_ranks, device)
    assert not fits(CONFIG, largest.scaled(1.01), num_ranks, device)


def test_the_largest_log_does_not_depend_on_how_large_the_given_one_is() -> None:
    device = small_gpu(rows_bytes=10**9)
    few, many = (LogShape(events, events) for events in (2, 10**6))
    largest = [largest_log(CONFIG, like, 1, device) for like in (few, many)]
    assert largest[0] is not None and largest[1] is not None
    assert len(largest[0]) == pytest.approx(len(largest[1]), rel=2e-3)


def test_no_log_is_larger_than_a_neighbour_index_holds() -> None:
    unlimited = replace(GPU, memory_bytes=10**18, host_memory_bytes=10**18)
    largest = largest_log(CONFIG, LogShape.random(100_000), 4, unlimited)
    assert largest is not None
    assert 0.999 * MAX_EVENTS < len(largest) <= MAX_EVENTS


def test_where_the_model_alone_is_too_large_no_log_fits() -> None:
    assert largest_log(CONFIG, LogShape.random(100_000), 1, small_gpu(-(10**8))) is None


def test_on_cores_everything_is_in_one_memory_that_ranks_share() -> None:
    cores = device_named("cpu")
    sizes = rank_bytes(CONFIG, LogShape.random(100_000), 2, cores)
    [host] = bytes_by_place(sizes, cores, 2)
    assert (host.place, host.needed) == ("host", 2 * sizes.total)


def test_shorter_sequences_are_a_remedy_where_they_fit() -> None:
    log, model = (
        LogShape.random(100_000),
        DyGFormerConfig(sequence_length=1024, patch_size=16, time_width=8, part_channels=4, channels=16),
    )
    short = Config(model=replace(model, sequence_length=256))
    needed = rank_bytes(short, log, 1, GPU).on("device", GPU)
    device = replace(GPU, memory_bytes=needed)
    assert fits(short, log, 1, device)
    assert not fits(Config(model=model), log, 1, device)
    assert "--model.sequence-length 256 instead of 1024 (shorter histories)" in remedies(
        Config(model=model), log, 1, device
    )
