"""The time column of the whole log: which form holds every time exactly, and ranks instead of times."""

import hashlib
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from data_prep.values import TimeRule
from tpnet_dist.errors import InputError
from tpnet_dist.events.manifest import TickUnit, TimeType
from tpnet_dist.events.shards import Times
from tpnet_dist.events.text_columns import EXACT_IN_FLOAT64

_NANOSECONDS = {"s": 1_000_000_000, "us": 1000, "ns": 1}
"""Nanoseconds of each unit that dates may be kept in, coarsest unit first."""


@dataclass
class TimeForm:
    """Learns from the first pass what the second should write: int64 if all times are whole, else float64.
    Dates are nanoseconds on the way, and written in the coarsest unit that keeps them."""

    rule: TimeRule
    has_fractions: bool = False
    largest_integer: int = 0
    first_time: int | float | None = None
    last_time: int | float | None = None
    lowest: int | float = np.inf
    highest: int | float = -np.inf
    log_end: int | float | None = None
    """The time of the last event of a log that is appended to."""
    kept_unit: TickUnit | None = None
    """The unit of that log's times, if they are whole."""
    _date_units: list[str] = field(default_factory=lambda: list(_NANOSECONDS))
    _digests: dict[str, "hashlib._Hash"] = field(default_factory=dict)

    @classmethod
    def after(cls, rule: TimeRule, log_end: int | float, dtype: TimeType, unit: TickUnit) -> "TimeForm":
        """Return the form of a log's times, for those that come after its end."""
        if rule.is_dates:
            log_end = int(log_end) * _NANOSECONDS[unit]
        form = cls(rule, has_fractions=dtype == "float64", last_time=log_end, log_end=log_end)
        form.kept_unit = unit if dtype == "int64" else None
        if rule.is_dates:
            form._date_units = [unit]
        return form

    def keeps(self, times: Times) -> bool:
        """Return whether the log that is appended to can hold them as exactly as they are."""
        if self.kept_unit is None:
            return True
        if not self.rule.is_dates:
            return times.dtype == np.int64
        return not (times % _NANOSECONDS[self.kept_unit]).any()

    def accepts(self, times: Times, *, in_order: bool) -> bool:
        """Return whether `times` may follow what was observed: exact in one form with it and, if asked, in
        order."""
        has_fractions = self.has_fractions or times.dtype == np.float64
        largest = self._largest(times)
        if has_fractions and largest > EXACT_IN_FLOAT64:
            return False
        if not self.keeps(times) or (self.log_end is not None and times.min() < self.log_end):
            return False
        if not in_order:
            return True
        follows = self.last_time is None or times[0].item() >= self.last_time
        return follows and bool((times[1:] >= times[:-1]).all())

    def observe(self, times: Times) -> None:
        self.largest_integer = self._largest(times)
        self.has_fractions |= times.dtype == np.float64
        if self.rule.is_dates and self.log_end is None:
            self._date_units = [
                unit for unit in self._date_units if unit == "ns" or not (times % _NANOSECONDS[unit]).any()
            ]
        self.first_time = times[0].item() if self.first_time is None else self.first_time
        self.last_time = times[-1].item()
        self.lowest, self.highest = (
            min(self.lowest, times.min().item()),
            max(self.highest, times.max().item()),
        )

    def digest(self, times: Times) -> None:
        """Take them into the digest of each form that may become the final one."""
        for form in self._date_units if self.rule.is_dates else self._number_forms():
            digest = self._digests.setdefault(form, hashlib.sha256())
            final = times // _NANOSECONDS[form] if self.rule.is_dates else times.astype(form, copy=False)
            digest.update(np.ascontiguousarray(final).data)

    def final_digest(self) -> bytes:
        return self._digests[self._date_units[0] if self.rule.is_dates else self.dtype].digest()

    def _number_forms(self) -> list[str]:
        # a fraction may still come
        return ["float64"] if self.has_fractions else ["int64", "float64"]

    @property
    def dtype(self) -> TimeType:
        return "float64" if self.has_fractions else "int64"

    @property
    def stored_unit(self) -> TickUnit:
        unit = self._date_units[0] if self.rule.is_dates else self.rule.unit
        return cast(TickUnit, unit)

    def to_final(self, times: Times) -> Times:
        if self.rule.is_dates:
            times = times // _NANOSECONDS[self.stored_unit]
        return times.astype(self.dtype, copy=False)

    def _largest(self, times: Times) -> int:
        return max(self.largest_integer, int(times.max()) if times.dtype == np.int64 else 0)


class TimeRanks:
    """Replace each distinct time by its rank × step, over a stream in time order."""

    def __init__(self, step: float, *, rank: int = -1, last: int | float | None = None) -> None:
        """`rank`, `last`: the rank of the last event of a log that is appended to, and its time."""
        self.step = int(step) if float(step).is_integer() else step
        self._rank, self._last = rank, last

    @property
    def dtype(self) -> TimeType:
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
