"""What a run finds it takes, before it starts, is what the plan says of as many ranks: to the byte."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch

from tests.support.command_line import run_here
from tests.support.training_runs import flags_of, small_config, small_log
from tpnet_dist.config.schema import Config
from tpnet_dist.distributed.world import DEFAULT_TIMEOUT, Answer, World
from tpnet_dist.plan import main
from tpnet_dist.sizing import rank_memory
from tpnet_dist.sizing.devices import Device, device_named
from tpnet_dist.sizing.rank_bytes import NeededBytes
from tpnet_dist.training.preflight import Preflight

PARTS = [field.name for field in fields(NeededBytes) if field.name != "borrowed_rows"]
PLENTY = 10**9
FEW_ROWS = 2 * 5 * 296
"""Beside what a rank cannot do without: half of it goes to borrowed rows of 296 bytes."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_log(tmp_path_factory.mktemp("plan") / "log")


class FirstOfMany(World):
    """The first rank; the others count as equal to it."""

    def on_every_rank(self, act: Callable[[], Answer]) -> Answer:
        return act()


def needed_by_run(config: Config, device_type: str, num_ranks: int, free: int) -> NeededBytes:
    world = FirstOfMany(0, num_ranks, 0, num_ranks, torch.device(device_type), DEFAULT_TIMEOUT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_memory, "free_bytes", lambda device: free)
        return Preflight.of(config, world).needed


def planned(folder: Path, config: Config, device: Device, num_ranks: int, file: Path) -> Mapping[str, Any]:
    file.write_text(tomli_w.dumps({name: value for name, value in vars(device).items() if value is not None}))
    batches = ["--data.batching", config.data.batching]
    args = [folder, "--ranks", str(num_ranks), "--device", file, "--json", *flags_of(config), *batches]
    done = run_here(main, *args)
    assert done.returncode == 0, done.stderr
    plan: dict[str, Any] = json.loads(done.stdout)
    return plan


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
@pytest.mark.parametrize("is_tight", [False, True])
@pytest.mark.parametrize("name", ["cpu", "rtx3090"])
def test_plan_and_preflight_agree_to_the_byte(
    name: str, is_tight: bool, num_ranks: int, folder: Path, tmp_path: Path
) -> None:
    config, device = small_config(folder), device_named(name)
    sharers = num_ranks if device.is_host else 1
    free = PLENTY
    needed = needed_by_run(config, device.type, num_ranks, free * sharers)
    if is_tight:
        beside = {"borrowed"} if device.is_host else {"borrowed", "neighbors"}
        free = sum(value for part, value in needed.parts() if part not in beside) + FEW_ROWS
        needed = needed_by_run(config, device.type, num_ranks, free * sharers)
    memory = device.base_bytes + free
    device = replace(
        device, memory_bytes=memory, host_memory_bytes=memory * sharers, ranks_per_host=num_ranks
    )
    plan = planned(folder, config, device, num_ranks, tmp_path / "device.toml")
    assert {part: plan["bytes_per_rank"][part] for part in PARTS} == dict(needed.parts())
    assert plan["borrowed_rows_per_rank"] == needed.borrowed_rows
    assert all(value > 0 for part, value in needed.parts() if part != "borrowed")
    if num_ranks > 1:
        assert needed.borrowed_rows == 5 if is_tight else needed.borrowed_rows > 50
