"""`python -m tpnet_dist.doctor`: does this machine train as it should, and how fast? One report to paste."""

import json
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from tpnet_dist.config.commands import CommandParser
from tpnet_dist.distributed.launch_environment import launched_by_torchrun, quiet_profiler
from tpnet_dist.errors import InputError, errors_for_people, spoken

PROGRAM = "python -m tpnet_dist.doctor"
DIFFERS = 1
"""The exit code where something is not as it should be."""
MOST_STEPS = 10_000
CPU_RANKS = 2


@dataclass(kw_only=True)
class DoctorCommand:
    """Check devices, links, collectives, kernels and a short training; compare it with one CPU rank's losses,
    and its speed with the planner's prediction. Takes about two minutes, and starts its own ranks.

    The report is text to paste into an issue. The exit code is 0 if all is well, and 1 if not.

    Example: tpnet doctor --ranks 4
    """

    keep: Annotated[Positional[Path | None], arg(metavar="[DIR]")] = None
    """The folder in which logs and runs of the checkup are kept; left away, they are removed."""
    ranks: Annotated[int | None, arg(metavar="COUNT")] = None
    """The number of ranks; by default one for each GPU, or two on a CPU."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """The devices that ranks compute on; auto: GPUs, where there are any."""
    steps: Annotated[int, arg(metavar="COUNT")] = 50
    """Training steps of each training."""
    batch_size: Annotated[int, arg(metavar="COUNT")] = 200
    """Events of a step."""
    json: bool = False
    """Print the report as JSON."""
    debug: bool = False
    """Show the traceback of an error."""


def parse_doctor(args: list[str]) -> DoctorCommand:
    """Parse the arguments; InputError with one sentence where they cannot be used."""
    command = CommandParser(DoctorCommand, PROGRAM, "keep", "folder to keep").parse(args)
    for flag, value, most in (
        ("--ranks", command.ranks, 1024),
        ("--steps", command.steps, MOST_STEPS),
        ("--batch-size", command.batch_size, 100_000),
    ):
        if value is not None and not 1 <= value <= most:
            raise InputError(f"{flag} is {value}, but must be within 1…{most:,}; the default will do")
    if command.keep is not None and command.keep.exists() and any(command.keep.iterdir()):
        raise InputError(f"{command.keep}: is not empty; name a new folder to keep the checkup's runs in")
    if launched_by_torchrun():
        raise InputError("torchrun started this, but it starts ranks by itself; run it with python alone")
    return command


def main() -> None:
    with errors_for_people(PROGRAM, debug="--debug" in sys.argv):
        is_well = _run(parse_doctor(sys.argv[1:]))
    sys.exit(0 if is_well else DIFFERS)


def _run(command: DoctorCommand) -> bool:
    quiet_profiler()
    # torch takes seconds to import: --help and a wrong flag are not to wait for it
    from data_prep.synth import make_log
    from tpnet_dist.checkup.examine import examine
    from tpnet_dist.checkup.short_training import ShortTraining

    device, ranks = _devices(command)
    if command.keep is not None:
        command.keep.mkdir(parents=True, exist_ok=True)
    with nullcontext(command.keep) if command.keep else TemporaryDirectory(prefix="doctor-") as kept:
        folder = Path(kept)
        what = ShortTraining(data=folder / "log", steps=command.steps, batch_size=command.batch_size)
        make_log(what.data, kind="social", events=what.events)
        findings = examine(what, folder, device=device, ranks=ranks, say=_say)
    print(json.dumps(findings.to_json(), indent=2) if command.json else findings.text())
    return findings.ok


def _devices(command: DoctorCommand) -> tuple[str, int]:
    import torch

    num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    device = command.device if command.device != "auto" else ("cuda" if num_gpus else "cpu")
    if device == "cuda" and not num_gpus:
        raise InputError(
            "--device is cuda, but torch finds no GPU; see nvidia-smi, or check with --device cpu"
        )
    ranks = command.ranks or (num_gpus if device == "cuda" else CPU_RANKS)
    if device == "cuda" and ranks > num_gpus:
        raise InputError(f"--ranks is {ranks}, but there are {num_gpus} GPUs, one for each; lower it")
    return device, ranks


def _say(what: str) -> None:
    print(f"{spoken(PROGRAM)}: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
