"""How benchmarks take time: a stop watch, quantiles, turns after a warm-up; and how much memory they read.

Contestants that take turns meet the same disturbances of a shared machine. What is measured first also pays
for what is built or loaded once: warm-up turns are taken and not counted.
"""

import ctypes
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from tpnet_dist.distributed.peak_memory import peak_bytes as peak_bytes

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

Name = TypeVar("Name")
Taken = TypeVar("Taken")


@dataclass
class StopWatch:
    """Seconds between one lap and the next."""

    laps: list[float] = field(default_factory=list)
    _last: float = field(default_factory=time.perf_counter)

    def start(self) -> None:
        """Start the clock; time that passed before does not count."""
        self._last = time.perf_counter()

    def lap(self) -> float:
        now = time.perf_counter()
        self.laps.append(now - self._last)
        self._last = now
        return self.laps[-1]


@dataclass(frozen=True)
class Quantiles:
    """The median of some seconds, and the time that nine of ten stay below."""

    p50: float
    p90: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> "Quantiles":
        return cls(*np.quantile(list(seconds), [0.5, 0.9]).tolist())


def seconds_of(act: Callable[[], object]) -> float:
    watch = StopWatch()
    act()
    return watch.lap()


def repeated_seconds(acts: Iterable[Callable[[], object]], *, warm_up: int) -> list[float]:
    """Return the seconds of each act but the first few; what an act works on is made while the clock
    stands."""
    return [seconds_of(act) for act in acts][warm_up:]


def repeat_for(seconds: float) -> Iterator[int]:
    """Yield numbers from 0, at least one, until the time is over."""
    started, number = time.perf_counter(), 0
    while number == 0 or time.perf_counter() - started < seconds:
        yield number
        number += 1


def take_turns(
    acts: Mapping[Name, Callable[[], Taken]], *, turns: int, warm_up: int = 1
) -> dict[Name, list[Taken]]:
    """Return what each act returned, turn by turn: all act once before any does again."""
    taken: dict[Name, list[Taken]] = {name: [] for name in acts}
    for turn in range(warm_up + turns):
        for name, act in acts.items():
            result = act()
            if turn >= warm_up:
                taken[name].append(result)
    return taken


def resident_bytes() -> int:
    """Return the bytes of memory that are resident for this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def release_free_memory() -> None:
    """Make malloc return what was freed, which it may keep for later, so that resident memory is memory in
    use."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def reset_peak_memory() -> None:
    Path("/proc/self/clear_refs").write_text("5")
