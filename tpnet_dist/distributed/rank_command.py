"""A command that every rank runs, and who says what cannot be used.

Of its arguments one rank of each host does: ranks have not met by then, and hosts may differ. Of all else the
first rank does.
"""

import sys
from collections.abc import Callable
from typing import TypeVar

from tpnet_dist.distributed.launch_environment import launched_as_first, launched_as_first_of_host
from tpnet_dist.errors import errors_for_people

Command = TypeVar("Command")


def run_on_ranks(program: str, parse: Callable[[list[str]], Command], run: Callable[[Command], None]) -> None:
    debug = "--debug" in sys.argv
    with errors_for_people(program, debug=debug, quiet=not launched_as_first_of_host()):
        command = parse(sys.argv[1:])
    with errors_for_people(program, debug=debug, quiet=not launched_as_first()):
        run(command)
