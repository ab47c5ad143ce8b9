"""Timescales from the times of training events alone: how walks fade where nobody has said so.

    slow    half of what an event weighs is left after 1.4 times the span of the training events: walks over
            all of the past still count, and only their order in it fades
    fast    half is left after the longest of a node's usual pauses, nine in ten of which are shorter: what is
            not yet over counts, what was before does not

Pauses of the later half of the training events decide, since people write less, or more, as time goes by,
and what is to be scored comes after them. Events at the same time have no pause between them.

Nothing here knows a label, a score or a later event. One pass over the events takes 8 bytes for each node and
a histogram of pauses, and counts whole numbers, so the same log always has the same timescales.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tpnet_dist.config.schema import AUTO_TIMESCALES
from tpnet_dist.events.unix_times import duration
from tpnet_dist.events.view import EventView

SLOW_TIMES_SPAN = 0.5
"""λ of the slow timescale times the span of the training events."""
USUAL_PAUSES = 0.9
"""The share of pauses that are shorter than the half-life of the fast timescale."""
LEAST_RATIO = 10.0
"""Fast over slow λ, at the least: closer ones would say the same."""
PAPER_LEAST, PAPER_MOST = 1.6, 250.0
"""λ · span of the paper's datasets whose times are not years lies within: 1.67 on UCI, 242 on Contact."""
_BINS_PER_OCTAVE, _OCTAVES = 8, 64
_FIRST_OCTAVE = -24
"""The exponent of the shortest pause of a histogram: from 2^-24 s, a clock's tick, to 2^40 s, 35,000
years."""
_WITHOUT_SPAN = (1e-6, 1e-4)
"""The timescales of a log whose training events all have the same time: none fades, whatever λ is."""


@dataclass
class PauseCounts:
    """Pauses between a node's events, counted by their length; in each half of the events."""

    num_nodes: int
    half: int
    """The later half begins with this event."""
    events: int = 0
    counts: npt.NDArray[np.int64] = field(init=False)
    last_N: npt.NDArray[np.float64] = field(init=False)
    """The time of each node's last event; not a number before its first."""

    def __post_init__(self) -> None:
        self.counts = np.zeros((2, _BINS_PER_OCTAVE * _OCTAVES), np.int64)
        self.last_N = np.full(self.num_nodes, np.nan)

    def add(
        self, src_B: npt.NDArray[np.int32], dst_B: npt.NDArray[np.int32], time_B: npt.NDArray[np.float64]
    ) -> None:
        """Add the next events, in order of time; times are in seconds."""
        node_E, event_E = np.stack([src_B, dst_B], 1).ravel(), np.repeat(np.arange(len(time_B)), 2)
        by_node = np.argsort(node_E, kind="stable")
        node_E, event_E = node_E[by_node], event_E[by_node]
        time_E = time_B[event_E]
        is_first_E = np.diff(node_E, prepend=-1) != 0
        before_E = np.where(is_first_E, self.last_N[node_E], np.roll(time_E, 1))
        self.last_N[node_E] = time_E
        pause_E = time_E - before_E
        is_pause_E = pause_E > 0
        octave = np.log2(pause_E[is_pause_E]) - _FIRST_OCTAVE
        place = np.clip(octave * _BINS_PER_OCTAVE, 0, self.counts.shape[1] - 1).astype(np.int64)
        is_late = self.events + event_E[is_pause_E] >= self.half
        number = is_late * self.counts.shape[1] + place
        self.counts += np.bincount(number, minlength=self.counts.size).reshape(self.counts.shape)
        self.events += len(time_B)

    def quantile(self, share: float) -> float | None:
        """Return a quantile of the pauses of the later half, or of all if it has none, in seconds; None
        without any."""
        counts = self.counts[1] if self.counts[1].any() else self.counts.sum(0)
        if not counts.any():
            return None
        place = int(np.searchsorted(np.cumsum(counts), share * counts.sum()))
        return float(2.0 ** ((place + 0.5) / _BINS_PER_OCTAVE + _FIRST_OCTAVE))


def timescales_of(train: EventView) -> tuple[float, ...]:
    """Return λ of each timescale per second, slow ones first, to two digits."""
    pauses, first, last = PauseCounts(train.log.num_nodes, len(train) // 2), None, 0.0
    for chunk in train.stream():
        time_B = train.log.seconds(chunk.columns.time)
        first, last = float(time_B[0]) if first is None else first, float(time_B[-1])
        pauses.add(chunk.columns.src, chunk.columns.dst, time_B)
    span = last - (first or 0.0)
    if span <= 0:
        return _WITHOUT_SPAN
    slow, pause = SLOW_TIMES_SPAN / span, pauses.quantile(USUAL_PAUSES)
    fast = LEAST_RATIO * slow if pause is None else max(LEAST_RATIO * slow, math.log(2) / pause)
    rates = tuple(float(f"{rate:.2g}") for rate in (slow, fast))
    assert len(rates) == AUTO_TIMESCALES
    return rates


def half_life(rate: float) -> str:
    """Return, for people, after how long half of what an event weighs is left."""
    return duration(math.log(2) / rate) if rate else "forever"


def describe_rates(rates: tuple[float, ...], span: float) -> str:
    """Return, for people, what λ means on a log that spans so many seconds."""
    lives = ", ".join(half_life(rate) for rate in rates)
    return f"half-life {lives}; decay times span {', '.join(f'{rate * span:.3g}' for rate in rates)}"


def span_remark(rates: tuple[float, ...], span: float) -> str:
    """Return a sentence where the memory fades faster or slower than on any of the paper's datasets; else
    nothing. 0 is meant: it forgets nothing."""
    within = f"on the paper's datasets it is within {PAPER_LEAST:g}…{PAPER_MOST:g}"
    remedy = "--memory.decay auto takes timescales from the log"
    if rates[0] * span > PAPER_MOST:
        return (
            f"Half of what an event weighs in the memory is gone after {half_life(rates[0])}, and the log "
            f"spans {duration(span)}: decay times span is {rates[0] * span:.3g}, {within}; {remedy}."
        )
    if 0 < rates[-1] * span < PAPER_LEAST:
        return (
            f"The memory hardly fades: half of what an event weighs is left after {half_life(rates[-1])}, "
            f"and the log spans {duration(span)}: decay times span is {rates[-1] * span:.3g}, {within}; "
            f"{remedy}."
        )
    return ""
