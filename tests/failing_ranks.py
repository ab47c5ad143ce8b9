"""Ranks of which the second fails in the way the first word says; started by torchrun in a test."""

import sys
import time
from datetime import timedelta

from tpnet_dist.ranks.failure import ends_together
from tpnet_dist.ranks.world import join_world


def main(way: str, timeout: float) -> None:
    limit = timedelta(seconds=timeout)
    with join_world(limit) as world, ends_together(world, "ranks"), world.stop.listening():
        world.phase.now = f"training, epoch 1, step {world.rank}"
        if world.rank == 1:
            if way == "raise":
                raise ValueError("nothing doing")
            # its heart goes on beating
            time.sleep(1000)
        world.wait_for_all()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
