"""A command that runs on ranks: started by a launcher, or by itself, and who says what cannot be used.

Of its arguments one rank of each host does: ranks have not met by then, and hosts may differ. Of all else the
first rank does.
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
    with errors_for_people(program, debug=debug, quiet=not launched_as_first_of_host(), told=tell_launcher):
        command = parse(args)
        num_ranks = ranks_to_start(command.ranks)
        if num_ranks > 1:
            from tpnet_dist.distributed.launcher import start_ranks

            leave(start_ranks(program, args, num_ranks, command.restarts))
    with errors_for_people(program, debug=debug, quiet=not launched_as_first(), told=tell_launcher):
        run(command)
        sys.stdout.flush()
    end_rank()


def end_rank(code: int = 0) -> None:
    """End a rank that torchrun or SLURM started, since its command is done. A thread of a process group may
    still have a tensor of Python's to drop: taking the interpreter down beneath it aborts the process now and
    then, and the launcher would then say that a training failed which is whole."""
    if launched_by_torchrun() or launched_by_slurm():
        atexit._run_exitfuncs()
        leave(code)
