"""A command that runs on ranks: started by a launcher, or by itself, and who says what cannot be used.

Before ranks have met one rank of each host does, since hosts may differ, in their arguments or files. From
then on the first rank does.
"""

import atexit
import sys
from collections.abc import Callable
from typing import Protocol, TypeVar

from tpnet_dist.distributed.launch_environment import (
    launched_as_first,
    launched_as_first_of_host,
    launched_by_slurm,
    launched_by_torchrun,
    launched_on_first_host,
    ranks_to_start,
    tell_launcher,
)
from tpnet_dist.errors import errors_for_people, leave


class RankCommand(Protocol):
    """What the arguments of such a command say."""

    @property
    def ranks(self) -> str:
        """How many ranks, or `auto`."""

    @property
    def restarts(self) -> int:
        """How often ranks are started again after one of them failed."""


Command = TypeVar("Command", bound=RankCommand)


def run_on_ranks(program: str, parse: Callable[[list[str]], Command], run: Callable[[Command], None]) -> None:
    """Run the command on this rank; or start as many ranks as it wants, which do, and end as they do."""
    debug, args = "--debug" in sys.argv, sys.argv[1:]
    with errors_for_people(program, debug=debug, quiet=_is_quiet, told=_tell):
        command = parse(args)
        num_ranks = ranks_to_start(command.ranks)
        if num_ranks > 1:
            from tpnet_dist.distributed.launcher import start_ranks

            leave(start_ranks(program, args, num_ranks, command.restarts))
        run(command)
        sys.stdout.flush()
    end_rank()


def _is_quiet() -> bool:
    return not (launched_as_first() if _have_met() else launched_as_first_of_host())


def _tell(line: str, is_said: bool) -> None:
    """Leave the line for the launcher, who says it if whoever is to say it on this host was ended."""
    tell_launcher(line, is_unsaid=not is_said and (not _have_met() or launched_on_first_host()))


def _have_met() -> bool:
    """Return whether ranks have met; torch takes seconds to import, and without it they have not."""
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and bool(distributed.is_initialized())


def end_rank(code: int = 0) -> None:
    """End a rank that torchrun or SLURM started, since its command is done. A thread of a process group may
    still have a tensor of Python's to drop: taking the interpreter down beneath it aborts the process now and
    then, and the launcher would then say that a training failed which is whole."""
    if launched_by_torchrun() or launched_by_slurm():
        atexit._run_exitfuncs()
        leave(code)
