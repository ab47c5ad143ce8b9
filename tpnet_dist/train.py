"""`torchrun --nproc_per_node=4 -m tpnet_dist.train [DATA_DIR] …`: train TPNet on an event log."""

import logging
import os
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tpnet_dist.config.schema import Config
from tpnet_dist.config.train_args import PROGRAM, TrainSettings, parse_train
from tpnet_dist.distributed.launch_environment import quiet_profiler
from tpnet_dist.distributed.rank_command import run_on_ranks

if TYPE_CHECKING:
    from tpnet_dist.distributed.world import World

BUILTIN_EVENTS = 10_000


def main() -> None:
    run_on_ranks(PROGRAM, parse_train, _run)


def _run(settings: TrainSettings) -> None:
    quiet_profiler()
    # torch takes seconds to import: --help and a wrong flag are not to wait for it
    from rich.console import Console

    from tpnet_dist.config.keys import values_of
    from tpnet_dist.distributed.failure import ends_together
    from tpnet_dist.distributed.host_memory import keep_large_buffers
    from tpnet_dist.distributed.world import join_world
    from tpnet_dist.training.preflight import Preflight

    if settings.debug:
        logging.getLogger("tpnet_dist").setLevel(logging.DEBUG)
    keep_large_buffers()
    timeout = timedelta(seconds=settings.config.training.timeout)
    with join_world(timeout) as world, ends_together(world, PROGRAM), world.stop.listening():
        # before anything that depends on them
        world.require_agreement({**values_of(settings.config), **settings.besides_config()})
        config = _with_data(settings.config, world)
        if settings.check:
            preflight = Preflight.of(config, world)
            if world.rank == 0:
                preflight.show(Console())
            return
        _train(settings, config, world)


def _train(settings: TrainSettings, config: Config, world: "World") -> None:
    """Until it is done or a signal asks to stop."""
    from tpnet_dist.distributed.stop_request import StopAsked
    from tpnet_dist.training.run import train

    run_dir = settings.run_dir or world.on_first_rank(lambda: _new_run_dir(config, world))
    if settings.run_dir is None:
        world.phase.again = f"repeat the command with --run-dir {run_dir}"
    try:
        # what an earlier start of the same launch left is to be gone on with
        fresh = settings.fresh and world.is_first_start()
        train(config, run_dir, world, fresh=fresh, profile_steps=settings.profile)
    except StopAsked as stop:
        if world.rank == 0:
            line = f"{stop} during {world.phase.now}; saved; {world.phase.again} to go on"
            print(f"{PROGRAM}: {line}", file=sys.stderr, flush=True)


def _with_data(config: Config, world: "World") -> Config:
    if config.data.folder:
        return config
    folder = world.on_first_rank(builtin_log)
    return replace(config, data=replace(config.data, folder=str(folder)))


def builtin_log() -> Path:
    """A small social log for those who give no data, made on first use and kept in the user's cache."""
    from data_prep.synth import make_log
    from tpnet_dist.events.manifest import MANIFEST_NAME

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "tpnet_dist" / f"social-{BUILTIN_EVENTS}"
    if not (folder / MANIFEST_NAME).exists():
        make_log(folder, kind="social", events=BUILTIN_EVENTS)
    return folder


def _new_run_dir(config: Config, world: "World") -> Path:
    """By the time; ranks that torchrun starts again go on in the folder of those before."""
    name = f"{Path(config.data.folder).name}-{time.strftime('%Y%m%d-%H%M%S')}"
    return Path("runs") / world.same_after_restarts("run", name)


if __name__ == "__main__":
    main()
