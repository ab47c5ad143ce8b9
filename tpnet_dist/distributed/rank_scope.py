"""What every command and call does around its work on all ranks: meet, end together, obey signals."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from tpnet_dist.distributed.failure import ends_together
from tpnet_dist.distributed.host_memory import keep_large_buffers
from tpnet_dist.distributed.out_of_memory import out_of_memory_told
from tpnet_dist.distributed.stop_request import SIGNALS, in_main_thread
from tpnet_dist.distributed.world import DEFAULT_TIMEOUT, World, join_world


@contextmanager
def rank_scope(program: str, timeout: timedelta = DEFAULT_TIMEOUT) -> Iterator[World]:
    """Run the block from the ranks' meeting to their end; messages of failures begin with `program`."""
    keep_large_buffers()
    with (
        join_world(timeout) as world,
        ends_together(world, program),
        world.stop.listening(),
        out_of_memory_told(world),
    ):
        yield world


@contextmanager
def process_restored() -> Iterator[None]:
    """Put back what is the whole process's, also after an error: a notebook goes on afterwards.

    That is environment variables, signal handlers, and what shows a traceback: torch adds the rank to it.
    """
    environment, excepthook = dict(os.environ), sys.excepthook
    handlers = {number: signal.getsignal(number) for number in SIGNALS} if in_main_thread() else {}
    try:
        yield
    finally:
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)
        sys.excepthook = excepthook
        for number, handler in handlers.items():
            if handler is not None:  # a library's in C, which stays as long as nobody replaces it
                signal.signal(number, handler)
