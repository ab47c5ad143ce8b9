"""Ranks of which the second fails in the way the first word says; started by torchrun in a test."""

import ctypes
import os
import signal
import sys
import time
from datetime import timedelta

from torch.distributed import DistBackendError

from tpnet_dist.distributed.failure import ends_together
from tpnet_dist.distributed.world import join_world

NCCL_OUT_OF_MEMORY = """NCCL error in: x.cpp:1, unhandled cuda error (run with NCCL_DEBUG=INFO for details)
ncclUnhandledCudaError: Call to CUDA function failed.
Last error:
Cuda failure 2 'out of memory'"""


def wait_for_ever_outside_python() -> None:
    """As in a collective that does not break: no signal ends it, and Python's handlers have to wait."""
    lock, mutex = ctypes.CDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(64)
    lock(mutex)
    lock(mutex)


def main(way: str, timeout: float) -> None:
    limit = timedelta(seconds=timeout)
    with join_world(limit) as world, ends_together(world, "ranks"), world.stop.listening():
        world.phase.now = f"training, epoch 1, step {world.rank}"
        if world.rank == 1:
            if way == "raise":
                raise ValueError("nothing doing")
            if way == "gpu":
                raise DistBackendError(NCCL_OUT_OF_MEMORY)
            if way == "die unheard":
                time.sleep(2)
                os.kill(os.getpid(), signal.SIGKILL)
            # its heart goes on beating
            time.sleep(1000)
        elif way == "die unheard":
            world.stop.is_polled = True
            wait_for_ever_outside_python()
        world.wait_for_all()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
