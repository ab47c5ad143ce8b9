"""`python -m tpnet_dist.plan --events 1e8 --ranks 4`: does a log fit, and how long will it take?"""

import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import tyro
from tyro.conf import FlagConversionOff, FlagCreatePairsOff, arg

from tpnet_dist.config.args import CommandLine
from tpnet_dist.config.keys import config_from, config_keys, keys_of, require_no_seed_is_dropped
from tpnet_dist.config.model_configs import model_config_type
from tpnet_dist.config.schema import Config
from tpnet_dist.config.toml_files import model_of, read_layers
from tpnet_dist.errors import InputError, errors_for_people, spoken

if TYPE_CHECKING:
    from tpnet_dist.sizing.devices import Device

PROGRAM = "python -m tpnet_dist.plan"
RANKS_OF_A_NAMED_DEVICE = 4


@dataclass(kw_only=True)
class OwnFlags:
    """The flags that are no keys of a configuration."""

    events: Annotated[int | None, arg(metavar="COUNT")] = None
    """The number of events of the log; 1e8 may be written so."""
    nodes: Annotated[int | None, arg(metavar="COUNT")] = None
    """The number of nodes; by default as many as the paper's random graphs have, events / 50."""
    data: Annotated[Path | None, arg(metavar="DIR")] = None
    """A data folder, instead of events and nodes; what ranks exchange is then counted from its batches."""
    ranks: Annotated[int | None, arg(metavar="COUNT")] = None
    """The number of ranks, one per GPU; by default as many as `tpnet train` starts on this machine, or four
    of a device that is named."""
    device: Annotated[str, arg(metavar="auto|rtx3090|a100|h100|cpu|FILE.toml")] = "auto"
    """The device that each rank computes on; auto: this machine's GPUs, or else its CPU, at the speed of the
    one that was measured; a file is one that --calibrate wrote, or like it."""
    calibrate: Annotated[Path | None, arg(metavar="FILE.toml")] = None
    """Measure this machine's cores, write the file, and stop."""
    figure: Annotated[Path | None, arg(metavar="FILE.png|svg")] = None
    """Draw speed and memory for 1 to 1024 ranks."""
    preset: Annotated[str | None, arg(metavar="NAME")] = None
    """Settings of one of the paper's datasets."""
    config: Annotated[Path | None, arg(metavar="FILE.toml")] = None
    """A TOML file of settings, such as the config.toml of a run."""
    json: bool = False
    """Print the plan as JSON instead of tables."""
    debug: bool = False
    """Show the traceback of an error."""


@dataclass(kw_only=True)
class PlanCommand(OwnFlags):
    """Bytes per rank, whether they fit and what would make them fit, exchange, step and epoch time, scaling.

    Figures of GPUs are predictions from published figures; see docs/scaling.md. Every setting of a run is a
    flag here too.

    Example: tpnet plan --events 1e8 --nodes 2e6 --ranks 4 --device rtx3090
    """

    keys: Annotated[FlagConversionOff[Config], arg(name="")] = field(default_factory=Config)


OWN_KEYS = keys_of(OwnFlags)


def _command_line(model: str) -> CommandLine:
    return CommandLine(
        keys={**OWN_KEYS, **config_keys(model)},
        switches=frozenset({"json", "debug"}),
        positional_key="data",
        positional_name="data folder",
    )


def parse_plan(args: list[str]) -> tuple[OwnFlags, Config]:
    """Parse the arguments; InputError with one sentence where they cannot be used."""
    model = model_of(args)
    if "-h" in args or "--help" in args:
        show_help(model)
    said = _command_line(model).read(args)
    require_no_seed_is_dropped(said)
    own = OwnFlags(**{name: said.pop(name) for name in OWN_KEYS if name in said})  # type: ignore[arg-type]
    _check(own)
    config = config_from([*read_layers(own.preset, own.config, model), said])
    if config.training.precision == "float64":
        raise InputError("training.precision is float64, but plans are of float32 or bfloat16; choose one")
    return own, config


def _check(own: OwnFlags) -> None:
    if own.ranks is not None and own.ranks < 1:
        raise InputError(f"--ranks is {own.ranks}, but must be at least 1; raise it")
    if own.calibrate is not None:
        _require_suffix("--calibrate", own.calibrate, (".toml",))
        return
    if own.figure is not None:
        _require_suffix("--figure", own.figure, (".png", ".svg"))
    if own.data is None and own.events is None:
        raise InputError("no log is given; say --events 1e8, or name a data folder with --data")
    if own.data is not None and (own.events is not None or own.nodes is not None):
        raise InputError(f"--data {own.data} has its own events and nodes; leave --events and --nodes away")
    for name in ("events", "nodes"):
        value = getattr(own, name)
        if value is not None and value < 1:
            raise InputError(f"--{name} is {value}, but must be at least 1; raise it")


def _require_suffix(flag: str, path: Path, suffixes: tuple[str, ...]) -> None:
    if path.suffix not in suffixes:
        file = path.parent / f"{path.stem}{suffixes[0]}"
        raise InputError(f"{flag} {path}: must end in {' or '.join(suffixes)}; write {file}")


def show_help(model: str) -> NoReturn:
    default = PlanCommand(keys=Config(model=model_config_type(model)()))
    tyro.cli(
        PlanCommand, prog=spoken(PROGRAM), args=["--help"], default=default, config=(FlagCreatePairsOff,)
    )
    raise AssertionError("tyro shows the help and exits")


def main() -> None:
    with errors_for_people(PROGRAM, debug="--debug" in sys.argv):
        _run(*parse_plan(sys.argv[1:]))


def _run(own: OwnFlags, config: Config) -> None:
    # torch takes seconds to import: --help and a wrong flag are not to wait for it
    from rich.console import Console

    from tpnet_dist.config.log_shape import LogShape
    from tpnet_dist.sizing.calibrate import calibrate
    from tpnet_dist.sizing.data_traffic import count_data
    from tpnet_dist.sizing.plan_of import make_plan, with_an_event_each
    from tpnet_dist.sizing.show import draw_curve, show_plan

    if own.calibrate is not None:
        device = calibrate(own.calibrate)
        print(
            f"{own.calibrate}: {device.flops / 1e9:,.0f} GFLOP/s, {device.bandwidth / 1e9:,.1f} GB/s per core"
        )
        return
    device, ranks = _device(own)
    config = _with_timescales(config, own.data)
    if own.data is not None:
        log, counted = count_data(own.data, with_an_event_each(config, ranks), ranks, device)
    else:
        log, counted = LogShape.random(own.events or 0, own.nodes), None
    plan = make_plan(config, log, ranks, device, counted)
    if own.json:
        print(json.dumps(plan.to_json(), indent=2))
    else:
        show_plan(plan, Console())
    if own.figure is not None:
        own.figure.parent.mkdir(parents=True, exist_ok=True)
        draw_curve(plan, own.figure)


def _device(own: OwnFlags) -> "tuple[Device, int]":
    """Return what each rank computes on, and how many ranks there are."""
    from tpnet_dist.distributed.launch_environment import ranks_to_start
    from tpnet_dist.sizing.devices import device_named
    from tpnet_dist.sizing.this_machine import this_machine

    if own.device != "auto":
        return device_named(own.device), own.ranks or RANKS_OF_A_NAMED_DEVICE
    return this_machine(), own.ranks or ranks_to_start("auto")


def _with_timescales(config: Config, folder: Path | None) -> Config:
    """Put numbers in place of `memory.decay auto`; without a log any will do, since sizes depend on how many
    there are."""
    from tpnet_dist.batches.run_data import with_timescales
    from tpnet_dist.events.reader import EventLog

    if config.memory.decay != "auto":
        return config
    if folder is not None:
        return with_timescales(config, EventLog(folder))
    rates = tuple(10.0**power for power in range(config.memory.timescales))
    return replace(config, memory=replace(config.memory, decay=rates))


if __name__ == "__main__":
    main()
