"""The time column of the whole log: which form holds every time exactly, and ranks instead of times."""

from dataclasses import dataclass

import numpy as np

from data_prep.values import TimeUnit
from tpnet_dist.errors import InputError
from tpnet_dist.events.shards import Times
from tpnet_dist.events.text_columns import EXACT_IN_FLOAT64


@dataclass
class TimeForm:
    """Learns from the first pass what the second should write: int64 if all times are whole, else float64."""

    unit: TimeUnit
    has_fractions: bool = False
    largest_integer: int = 0
    whole_seconds: bool = True
    last_time: int | float | None = None

    def accepts(self, times: Times, *, in_order: bool) -> bool:
        """Whether `times` may follow what was observed: exact in one form with it and, if asked, in order."""
        has_fractions = self.has_fractions or times.dtype == np.float64
        largest = self._largest(times)
        if has_fractions and largest > EXACT_IN_FLOAT64:
            return False
        if not in_order:
            return True
        follows = self.last_time is None or times[0].item() >= self.last_time
        return follows and bool((times[1:] >= times[:-1]).all())

    def observe(self, times: Times) -> None:
        self.largest_integer = self._largest(times)
        self.has_fractions |= times.dtype == np.float64
        if self.unit == "iso":
            self.whole_seconds &= bool((times % 1_000_000 == 0).all())
        self.last_time = times[-1].item()

    @property
    def dtype(self) -> str:
        return "float64" if self.has_fractions else "int64"

    @property
    def stored_unit(self) -> str:
        if self.unit == "iso":
            return "s" if self.whole_seconds else "us"
        return self.unit

    def to_final(self, times: Times) -> Times:
        if self.unit == "iso" and self.whole_seconds:
            times = times // 1_000_000
        return times.astype(self.dtype, copy=False)

    def _largest(self, times: Times) -> int:
        return max(self.largest_integer, int(times.max()) if times.dtype == np.int64 else 0)


class TimeRanks:
    """Replace each distinct time by its rank × step, over a stream in time order."""

    def __init__(self, step: float) -> None:
        self.step = int(step) if float(step).is_integer() else step
        self._rank = -1
        self._last: int | float | None = None

    @property
    def dtype(self) -> str:
        return "int64" if isinstance(self.step, int) else "float64"

    def replace(self, times: Times) -> Times:
        is_new = np.empty(len(times), bool)
        is_new[0] = self._last is None or times[0].item() != self._last
        np.not_equal(times[1:], times[:-1], out=is_new[1:])
        ranks = self._rank + np.cumsum(is_new)
        self._rank, self._last = int(ranks[-1]), times[-1].item()
        if self._rank * self.step > EXACT_IN_FLOAT64:
            raise InputError(
                f"--time-step {self.step}: with {self._rank + 1:,} distinct times it leads beyond "
                f"{EXACT_IN_FLOAT64}; choose a smaller step"
            )
        return (ranks * self.step).astype(self.dtype)
