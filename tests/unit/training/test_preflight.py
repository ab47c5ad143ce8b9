"""What a run takes is held against the memory it lies in: a GPU's, or the host's."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from benchmarks.rank_pool import world_of_one
from tests.support.sentences import refused
from tests.support.training_runs import small_config, small_log
from tpnet_dist.batches.run_data import OpenedLog, RunData
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.batch_slices import BatchSlices
from tpnet_dist.distributed.world import World
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.shards import EventColumns
from tpnet_dist.models.dygformer.config import DyGFormerConfig
from tpnet_dist.sizing import rank_memory
from tpnet_dist.training import run
from tpnet_dist.training.preflight import Preflight
from tpnet_dist.training.run_folder import RunFolder


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return small_config(small_log(tmp_path_factory.mktemp("preflight") / "log"))


@pytest.fixture
def on_host() -> Iterator[World]:
    with world_of_one() as world:
        yield world


@pytest.fixture
def on_gpu(on_host: World) -> World:
    return replace(on_host, device=torch.device("cuda"))


def make_free(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(rank_memory, "free_bytes", lambda device: free)


def needed_where_it_computes(preflight: Preflight) -> int:
    return preflight.needed.rows + preflight.needed.weights + preflight.needed.step


def assert_just_enough(needed: int, config: Config, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    make_free(monkeypatch, needed)
    Preflight.of(config, world)
    make_free(monkeypatch, needed - 1)
    with refused():
        Preflight.of(config, world)


def test_neighbours_and_clocks_need_room_on_a_host(
    config: Config, on_host: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    preflight = Preflight.of(config, on_host)
    needed = needed_where_it_computes(preflight) + preflight.needed.neighbors + preflight.needed.clocks
    assert_just_enough(needed, config, on_host, monkeypatch)


def test_neighbours_need_no_room_on_a_gpu(
    config: Config, on_gpu: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_free(monkeypatch, 10**9)
    preflight = Preflight.of(config, on_gpu)
    needed = needed_where_it_computes(preflight) + preflight.needed.clocks
    assert_just_enough(needed, config, on_gpu, monkeypatch)


def test_where_neighbours_are_the_most_no_setting_helps(
    config: Config, on_host: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_free(monkeypatch, 10**9)
    preflight = Preflight.of(config, on_host)
    crowded = replace(preflight, needed=replace(preflight.needed, neighbors=10**10))
    with refused():
        crowded.require_fits()


def test_what_cannot_be_evaluated_here_is_refused_before_anything_is_opened(
    config: Config, on_gpu: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_free(monkeypatch, 10**9)
    preflight = Preflight.of(config, on_gpu)
    needed = preflight.needed.rows + preflight.needed.clocks + preflight.needed.weights // 4
    make_free(monkeypatch, needed)
    Preflight.to_evaluate(config, on_gpu)
    make_free(monkeypatch, needed - 1)
    with refused():
        run.evaluate(RunFolder(tmp_path), config, on_gpu)


@pytest.mark.parametrize(("ranks", "wanted", "told"), [(3, None, True), (3, 1, False), (4, None, False)])
def test_ranks_with_uneven_slices_are_told_why(
    config: Config, on_host: World, ranks: int, wanted: int | None, told: bool
) -> None:
    slices = BatchSlices.of(wanted, 0, ranks, "cpu")
    remarks = replace(Preflight.of(config, on_host), slices=slices).remarks()
    sentence = (
        "The 4 microbatches of a batch fall unevenly to 3 ranks, up to 2 to one, so that sums are made as on "
        "one rank; --training.microbatches 1 is faster, and rounds otherwise."
    )
    assert (sentence in remarks) == told


class Opened(Exception):
    """All that a run reads before its first seed has been read."""


def stop_when_opened(config: Config, data: RunData) -> None:
    raise Opened


@pytest.mark.parametrize("batching", ["events", "timestamps"])
@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_a_run_reads_the_log_once_to_open_it_and_twice_for_each_neighbour_index(
    config: Config,
    on_host: World,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
    batching: Literal["events", "timestamps"],
) -> None:
    config = replace(config, data=replace(config.data, batching=batching))
    events_read, stream = [0], EventLog.stream

    def counted(log: EventLog, start: int = 0, stop: int | None = None, **how: Any) -> Iterator[EventColumns]:
        events_read[0] += (len(log) if stop is None else stop) - start
        return stream(log, start, stop, **how)

    monkeypatch.setattr(EventLog, "stream", counted)
    monkeypatch.setattr(run, "Passes", stop_when_opened)
    opened = OpenedLog.read(config)
    if command == "train":
        # looks whether any test event is inductive, to say so
        opened.split.inductive(opened.split.test)
    wanted, events_read[0] = events_read[0], 0
    with pytest.raises(Opened):
        if command == "train":
            run.train(config, tmp_path / "run", on_host)
        else:
            run.evaluate(RunFolder(tmp_path), config, on_host)
    assert events_read == [wanted + 2 * (opened.split.train.stop + len(opened.log))]


def test_sequences_that_do_not_fit_are_refused_with_the_length_that_does(
    config: Config, on_host: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = DyGFormerConfig(sequence_length=4096, patch_size=64)
    long, short = (
        replace(config, model=replace(model, sequence_length=length), training=replace(config.training))
        for length in (4096, 1024)
    )
    needed = Preflight.of(short, on_host).needed
    make_free(monkeypatch, sum(size for _, size in needed.parts()))
    Preflight.of(short, on_host)
    with refused() as error:
        Preflight.of(long, on_host)
    assert "lower it to 1024" in str(error.value)
    make_free(monkeypatch, needed.weights)
    with refused():
        Preflight.of(long, on_host)
