"""`torchrun --nproc_per_node=4 -m tpnet_dist.train [DATA_DIR] …`: train TPNet on an event log."""

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tpnet_dist.config import Config
from tpnet_dist.errors import errors_for_people
from tpnet_dist.ranks.launch_environment import launched_alone, launched_as_first, quiet_profiler
from tpnet_dist.settings import PROGRAM, TrainSettings, parse_train

if TYPE_CHECKING:
    from tpnet_dist.ranks.world import World


def main() -> None:
    with errors_for_people(
        PROGRAM, debug="--debug" in sys.argv, quiet=not launched_as_first(), at_once=not launched_alone()
    ):
        _run(parse_train(sys.argv[1:]))


def _run(settings: TrainSettings) -> None:
    quiet_profiler()
    # torch takes seconds to import: --help and a wrong flag are not to wait for it
    from rich.console import Console

    from tpnet_dist.ranks.host_memory import keep_large_buffers
    from tpnet_dist.ranks.world import join_world
    from tpnet_dist.training.forecast import Forecast
    from tpnet_dist.training.run import train

    keep_large_buffers()
    with join_world() as world:
        config = _with_data(settings.config, world)
        if settings.check:
            forecast = Forecast.of(config, world)
            if world.rank == 0:
                forecast.show(Console())
            return
        run_dir = settings.run_dir or world.on_first_rank(lambda: _new_run_dir(config))
        train(config, run_dir, world, profile_steps=settings.profile)


def _with_data(config: Config, world: "World") -> Config:
    if config.data.folder:
        return config
    from tpnet_dist.builtin_log import builtin_log

    folder = world.on_first_rank(builtin_log)
    return replace(config, data=replace(config.data, folder=str(folder)))


def _new_run_dir(config: Config) -> Path:
    return Path("runs") / f"{Path(config.data.folder).name}-{time.strftime('%Y%m%d-%H%M%S')}"


if __name__ == "__main__":
    main()
