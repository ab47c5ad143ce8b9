"""`tpnet train [DATA_DIR] …`, or `torchrun -m tpnet_dist.train`: train a model on an event log."""

import logging
import os
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tpnet_dist.config.schema import Config
from tpnet_dist.config.train_args import PROGRAM, TrainSettings, parse_train
from tpnet_dist.distributed.launch_environment import is_launched, quiet_profiler
from tpnet_dist.distributed.rank_command import run_on_ranks
from tpnet_dist.errors import spoken

if TYPE_CHECKING:
    from tpnet_dist.distributed.world import World

BUILTIN_EVENTS = 10_000
REPORT_NAME = "report.html"
"""The name of the report in the run's folder."""


def main() -> None:
    run_on_ranks(PROGRAM, parse_train, _run)


def _run(settings: TrainSettings) -> None:
    quiet_profiler()
    # torch takes seconds to import: --help and a wrong flag are not to wait for it
    from rich.console import Console

    from tpnet_dist.distributed.rank_scope import rank_scope
    from tpnet_dist.training.loggers import require_installed
    from tpnet_dist.training.preflight import Preflight

    if settings.debug:
        logging.getLogger("tpnet_dist").setLevel(logging.DEBUG)
    require_installed(settings.log)
    with rank_scope(PROGRAM, timeout_of(settings)) as world:
        if settings.check:
            preflight = Preflight.of(_agreed_config(settings, world, settings.run_dir), world)
            if world.rank == 0:
                preflight.show(Console())
            return
        world.phase.command = shlex.join([*spoken(PROGRAM).split(), *sys.argv[1:]])
        outcome = train_on_ranks(settings, world, again=_again)
        if outcome.stopped and world.rank == 0:
            print(f"{spoken(PROGRAM)}: {outcome.stopped}", file=sys.stderr, flush=True)
    if outcome.signal and not is_launched():
        sys.exit(128 + outcome.signal)


def _again(made: Path | None) -> str:
    return "repeat the command" + (f" with --run-dir {made}" if made else "")


@dataclass(frozen=True)
class TrainOutcome:
    """How training ended, where nothing failed."""

    run_dir: Path
    stopped: str = ""
    """Which signal stopped it, where, and how it goes on; empty: the run is finished."""
    signal: int = 0
    """The number of that signal."""


def timeout_of(settings: TrainSettings) -> timedelta:
    return timedelta(seconds=settings.config.training.timeout)


def train_on_ranks(
    settings: TrainSettings, world: "World", *, again: Callable[[Path | None], str]
) -> TrainOutcome:
    """Train until the run is done or a signal asks to stop; every rank gets the same outcome.

    `again`: how the run goes on, in args; given the run folder, if it was made up here.
    """
    from tpnet_dist.distributed.stop_request import StopRequested
    from tpnet_dist.files.progress import display_for
    from tpnet_dist.report.page import write_page
    from tpnet_dist.training.run import train

    config = _agreed_config(settings, world, settings.run_dir)
    run_dir = settings.run_dir or world.on_first_rank(lambda: _new_run_dir(config, world))
    world.phase.again = again(None if settings.run_dir else run_dir)
    try:
        # what an earlier start of the same launch left is to be gone on with
        fresh = settings.fresh and world.is_first_start()
        profile, log = settings.profile, settings.log
        train(config, run_dir, world, fresh=fresh, profile_steps=profile, loggers=log)
        page = world.on_first_rank(lambda: write_page([run_dir], run_dir / REPORT_NAME))
        display_for(world.rank).say(f"{page}: figures, curves and settings, to be opened in any browser")
    except StopRequested as stop:
        stopped = f"{stop} during {world.phase.now}; saved; {world.phase.again} to go on"
        return TrainOutcome(run_dir, stopped, stop.number)
    return TrainOutcome(run_dir)


def _agreed_config(settings: TrainSettings, world: "World", run_dir: Path | None) -> Config:
    """Return the settings with a data folder, checked before anything that depends on all ranks having the
    same."""
    from tpnet_dist.config.keys import values_of
    from tpnet_dist.training.continued import settled

    world.require_agreement({**values_of(settings.config), **settings.besides_config()})
    config = _with_data(settings.config, world)
    return world.on_first_rank(
        lambda: _with_timescales(
            settled(config, run_dir, learn_old_test=settings.learn_old_test), settings.run_dir
        )
    )


def _with_timescales(config: Config, run_dir: Path | None) -> Config:
    """Replace `memory.decay auto` by numbers: those of the run that is there, or from the log."""
    from tpnet_dist.batches.run_data import with_timescales
    from tpnet_dist.config.toml_files import CONFIG_NAME, read_config
    from tpnet_dist.events.reader import EventLog

    if config.memory.decay != "auto":
        return config
    if run_dir is not None and (run_dir / CONFIG_NAME).is_file():
        return replace(
            config, memory=replace(config.memory, decay=read_config(run_dir / CONFIG_NAME).memory.decay)
        )
    return with_timescales(config, EventLog(config.data.folder))


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
    """Name a run folder by the time; ranks that torchrun starts again go on in the folder of those before."""
    name = f"{Path(config.data.folder).name}-{time.strftime('%Y%m%d-%H%M%S')}"
    return Path("runs") / world.same_after_restarts("run", name)


if __name__ == "__main__":
    main()
