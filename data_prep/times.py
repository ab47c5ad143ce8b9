"""The time column of the whole log: which form holds every time exactly, and ranks instead of times."""

from dataclasses import dataclass, field

import numpy as np

from data_prep.values import TimeUnit
from tpnet_dist.errors import InputError
from tpnet_dist.events.shards import Times

_EXACT_IN_FLOAT64 = 2**53


@dataclass
class TimeForm:
    """Learns from the first pass what the second should write: int64 if all times are whole, else float64."""

    unit: TimeUnit
    has_fractions: bool = False
    largest_integer: int = 0
    whole_seconds: bool = True
    last_time: int | float | None = field(default=None)

    def observe(self, times: Times) -> None:
        if times.dtype == np.int64:
            self.largest_integer = max(self.largest_integer, int(times.max()))
        else:
            self.has_fractions |= bool((times != np.floor(times)).any())
        if self.unit == "iso":
            self.whole_seconds &= bool((times % 1_000_000 == 0).all())
        self.last_time = times[-1].item()

    def in_order(self, times: Times) -> bool:
        """Whether `times` may follow what was observed so far."""
        return bool((times[1:] >= times[:-1]).all()) and (
            self.last_time is None or times[0].item() >= self.last_time
        )

    def check(self) -> None:
        if self.has_fractions and self.largest_integer > _EXACT_IN_FLOAT64:
            raise InputError(
                f"time {self.largest_integer} cannot be kept exactly beside fractional times (float64 holds "
                f"integers up to {_EXACT_IN_FLOAT64}); write all times as integers of a finer --time-unit"
            )

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
        return (ranks * self.step).astype(self.dtype)
