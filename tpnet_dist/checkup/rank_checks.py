"""What each rank checks before anything is trained: collectives as a run uses them, and Triton's kernels.

`python -m tpnet_dist.checkup.rank_checks OUT.json` is started on every rank; the first writes what was found.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tpnet_dist.device_forms import MOST_DIFFERENCE, triton_is_there
from tpnet_dist.distributed.exchange import Exchange
from tpnet_dist.distributed.rank_command import end_rank
from tpnet_dist.distributed.world import World, join_world
from tpnet_dist.files.atomic_write import atomic_write

SMALL_BYTES = 4096
LARGE_BYTES = {"cpu": 16 << 20, "cuda": 256 << 20}
"""The size of a rank's message; the small one tells the latency, the large one the bandwidth."""
TIMES = 7

Found = dict[str, Any]


def check_ranks(world: World) -> dict[str, Found]:
    """Return for each check whether it is right, what was found, and how fast it was. Every rank must call
    it."""
    found = {}
    if world.num_ranks > 1:
        exchange = world.new_exchange()
        found["all-to-all"] = _all_to_all(world, exchange)
        found["all-reduce"] = _all_reduce(world)
    if triton_is_there(world.device):
        from tpnet_dist.memory import triton_record
        from tpnet_dist.models.tpnet import triton_pairs

        found["Triton kernel for rows"] = _trial(world, triton_record.trial)
        found["Triton kernel for pairs"] = _trial(world, triton_pairs.trial)
    return found


def _all_to_all(world: World, exchange: Exchange) -> Found:
    """Check rows as runs send them: uneven counts, some of them zero, of several types at once."""
    ranks, mine, device = world.num_ranks, world.rank, world.device
    # rank r sends s + 1 rows to rank s, but none to itself
    counts = [(other + 1) * (other != mine) for other in range(ranks)]
    to = torch.repeat_interleave(torch.arange(ranks), torch.tensor(counts)).to(device)
    values = 1000.0 * mine + to
    route = exchange.route(counts)
    ids, rows = exchange.forward(route, [to, values[:, None].expand(-1, 3).contiguous()])
    senders = torch.repeat_interleave(torch.arange(ranks), torch.tensor(route.recv_counts)).to(device)
    wanted = (1000.0 * senders + mine)[:, None].expand(-1, 3)
    is_right = route.recv_counts == [(mine + 1) * (other != mine) for other in range(ranks)]
    is_right = is_right and bool((ids == mine).all()) and torch.equal(rows, wanted)

    def trip(size: int) -> Callable[[], object]:
        each = size // ranks
        message = torch.ones(each * ranks, dtype=torch.uint8, device=device)
        return lambda: exchange.trade(message, [each] * ranks, [each] * ranks)

    return _judged(world, is_right, trip, share_sent=(ranks - 1) / ranks)


def _all_reduce(world: World) -> Found:
    """Check sums of whole numbers, which are exact in any order."""
    values = torch.arange(1000.0, device=world.device)
    mine = values * (world.rank + 1)
    dist.all_reduce(mine)
    is_right = torch.equal(mine, values * sum(range(1, world.num_ranks + 1)))

    def trip(size: int) -> Callable[[], object]:
        message = torch.ones(size // 4, device=world.device)
        return lambda: dist.all_reduce(message)

    # in a ring each rank passes on twice all parts but its own
    return _judged(world, is_right, trip, share_sent=2 * (world.num_ranks - 1) / world.num_ranks)


def _judged(
    world: World, is_right: bool, trip: Callable[[int], Callable[[], object]], *, share_sent: float
) -> Found:
    size = LARGE_BYTES[world.device.type]
    latency, seconds = (_median(world, trip(each)) for each in (SMALL_BYTES, size))
    wrong = [rank for rank, right in enumerate(world.gather_objects(is_right)) if not right]
    return {
        "ok": not wrong,
        "wrong_on_ranks": wrong,
        "seconds_of_4_KiB": latency,
        "bytes_per_second": share_sent * size / seconds,
    }


def _median(world: World, act: Callable[[], object]) -> float:
    seconds = []
    for _ in range(TIMES + 2):
        world.wait_for_all()
        started = time.perf_counter()
        act()
        _wait_for(world.device)
        seconds.append(time.perf_counter() - started)
    # the first ones make connections
    return statistics.median(seconds[2:])


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _trial(world: World, trial: Callable[[torch.device], float]) -> Found:
    """Find by how much a kernel differs from torch's operations, or why it does not run."""
    try:
        difference, reason = trial(world.device), ""
    except Exception as error:
        # compilers raise what they like
        difference, reason = float("inf"), f"{type(error).__name__}: {error}".split("\n")[0]
    of_ranks = world.gather_objects((difference, reason))
    largest = max(each for each, _ in of_ranks)
    is_right = all(each <= MOST_DIFFERENCE for each, _ in of_ranks)
    return {"ok": is_right, "difference": largest, "reason": next((why for _, why in of_ranks if why), "")}


def main() -> None:
    with join_world() as world:
        found = check_ranks(world)
        if world.rank == 0:
            with atomic_write(Path(sys.argv[1])) as file:
                file.write(json.dumps(found).encode())
    end_rank()


if __name__ == "__main__":
    main()
