"""Measure this machine: what a core does of what the model needs, what gloo moves between two ranks.

Best of several short measurements, since others may be at work too; one thread, as ranks that share a host
have.
"""

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import tomli_w
import torch
import torch.nn.functional as F
from torch import Tensor

from tpnet_dist.distributed.host_memory import free_bytes, keep_large_buffers
from tpnet_dist.distributed.rank_command import end_rank
from tpnet_dist.distributed.world import join_world
from tpnet_dist.errors import InputError
from tpnet_dist.files.atomic_write import atomic_write
from tpnet_dist.sizing.devices import Device

_SHAPE = (12_000, 172, 688)
"""Tokens of a batch, channels, hidden values: the model's largest product."""
_LINK_ROWS, _SMALL_ROWS = 16_384, 16
_ROW_FLOATS = 512


def calibrate(path: Path) -> Device:
    """Write a device's file for this machine; takes about a minute."""
    path.parent.mkdir(parents=True, exist_ok=True)
    keep_large_buffers()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        device = _measure()
    finally:
        torch.set_num_threads(threads)
    with atomic_write(path) as file:
        tomli_w.dump({name: value for name, value in vars(device).items() if value is not None}, file)
    return device


def _measure() -> Device:
    # of a container, those it may use
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory, (link, latency) = free_bytes(torch.device("cpu")), _link()
    return Device(
        title=f"{platform.node()}: one core of {cores}, as measured",
        source="python -m tpnet_dist.plan --calibrate",
        memory_bytes=memory // cores,
        flops=_flops(),
        bandwidth=_bandwidth(),
        special_functions_per_second=_special_functions(),
        seconds_per_operation=_seconds_per_operation(),
        link_bandwidth=link,
        seconds_per_collective=latency,
        network_bandwidth=link,
        host_memory_bytes=memory,
        ranks_per_host=cores,
        base_bytes=_base_bytes(),
        flops_share=1.0,
        bandwidth_share=1.0,
        link_share=1.0,
        network_share=1.0,
        is_host=True,
    )


def _flops() -> float:
    tokens, channels, hidden = _SHAPE
    wide, back, rows = (
        torch.randn(channels, hidden),
        torch.randn(hidden, channels),
        torch.randn(tokens, channels),
    )
    seconds = _best(lambda: (rows @ wide) @ back)
    return 2 * 2 * tokens * channels * hidden / seconds


def _bandwidth() -> float:
    """Measure bytes per second of an operation that reads two large tensors and writes a third."""
    one, two = torch.randn(_SHAPE[0], _SHAPE[2]), torch.randn(_SHAPE[0], _SHAPE[2])
    return 3 * one.nbytes / _best(lambda: one * two)


def _special_functions() -> float:
    """Measure special functions per second by GELU and its gradient, beyond the time their bytes take."""
    values = torch.randn(_SHAPE[0], _SHAPE[2])
    slope = torch.ones_like(values)
    both = _best(lambda: F.gelu(values)), _best(lambda: torch.ops.aten.gelu_backward(slope, values))
    plain = _best(lambda: values * slope)
    return 2 * values.numel() / max(sum(both) - 2 * plain, 1e-6)


def _seconds_per_operation() -> float:
    small = torch.ones(8)

    def many() -> Tensor:
        result = small
        for _ in range(1000):
            result = result + small
        return result

    return _best(many) / 1000


def _link() -> tuple[float, float]:
    """Return the bytes per second between two ranks, and seconds of a trip that moves next to nothing."""
    args = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "-m", __name__]
    large, small = map(float, _run_on_cores(args).split())
    return _LINK_ROWS // 2 * _ROW_FLOATS * 4 / (large - small), small


def _time_trips() -> None:
    """Time the trips that each of the two ranks makes; the first prints its seconds."""
    with join_world() as world:
        exchange, seconds = world.new_exchange(), []
        for num_rows in (_LINK_ROWS, _SMALL_ROWS):
            rows, route = torch.ones(num_rows, _ROW_FLOATS), exchange.route([num_rows // 2] * 2)
            seconds.append(_best(partial(exchange.forward, route, [rows]), median=True))
        if world.rank == 0:
            print(*seconds)
    end_rank()


def _base_bytes() -> int:
    """Return the largest resident set of a process that has learned from next to nothing."""
    return int(_run_on_cores(["-m", "tpnet_dist.training.bare_process"]))


def _run_on_cores(args: list[str]) -> str:
    """Return what a process prints that has one thread and sees no GPU."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, *args], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise InputError(
            f"a process to measure with ended with exit code {done.returncode}: {last}; try again"
        )
    return done.stdout


def _best(act: Callable[[], object], *, times: int = 15, median: bool = False) -> float:
    act()
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds) if median else min(seconds)


if __name__ == "__main__":
    _time_trips()
