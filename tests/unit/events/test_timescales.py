"""Timescales come from the times of training events alone, and say what they mean on a log."""

import math
from pathlib import Path

import numpy as np
import pytest

from tests.support.event_logs import write_log
from tests.support.sentences import same_sentence
from tpnet_dist.events.reader import EventLog
from tpnet_dist.events.split import split_log
from tpnet_dist.events.timescales import (
    LEAST_RATIO,
    SLOW_TIMES_SPAN,
    PauseCounts,
    describe_rates,
    span_remark,
    timescales_of,
)

BIN = 2 ** (1 / 8)
NODES, EVENTS = 40, 3000


def random_events(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A hub, ties, and pauses from a second to days."""
    draw = np.random.default_rng(seed)
    src, dst = draw.integers(0, NODES, (2, EVENTS)).astype(np.int32)
    src[draw.random(EVENTS) < 0.3] = 3
    return src, dst, np.cumsum(np.exp(draw.normal(3, 2, EVENTS)) * (draw.random(EVENTS) < 0.8)).round()


def pauses(src: np.ndarray, dst: np.ndarray, time: np.ndarray, first_event: int) -> list[float]:
    """One by one: those that end with an event from `first_event` on."""
    last: dict[int, float] = {}
    found = []
    for event, (u, v, now) in enumerate(zip(src.tolist(), dst.tolist(), time.tolist(), strict=True)):
        for node in (u, v):
            if node in last and now > last[node] and event >= first_event:
                found.append(now - last[node])
            last[node] = now
    return found


def timescales_in(folder: Path, src: np.ndarray, dst: np.ndarray, time: np.ndarray) -> tuple[float, ...]:
    return timescales_of(split_log(write_log(folder, src, dst, time, num_nodes=NODES)).train)


@pytest.mark.parametrize("at_once", [1, 7, 1000, EVENTS])
def test_pauses_are_counted_the_same_in_chunks_of_any_size(at_once: int) -> None:
    src, dst, time = random_events()
    counted = PauseCounts(NODES, EVENTS // 2)
    for start in range(0, EVENTS, at_once):
        here = slice(start, start + at_once)
        counted.add(src[here], dst[here], time[here])
    for share in (0.1, 0.5, 0.9):
        wanted = float(np.quantile(pauses(src, dst, time, EVENTS // 2), share))
        assert wanted / BIN <= (counted.quantile(share) or 0) <= wanted * BIN
    assert counted.counts.sum() == len(pauses(src, dst, time, 0))


def test_the_slow_one_spans_the_training_events_and_the_fast_one_a_nodes_pauses(tmp_path: Path) -> None:
    src, dst, time = random_events()
    log = write_log(tmp_path / "log", src, dst, time, num_nodes=NODES)
    train = split_log(log).train
    events = train.read(0, len(train)).columns
    slow, fast = timescales_of(train)
    assert slow == pytest.approx(SLOW_TIMES_SPAN / float(events.time[-1] - events.time[0]), rel=0.05)
    pause = float(np.quantile(pauses(events.src, events.dst, events.time, len(train) // 2), 0.9))
    assert math.log(2) / fast == pytest.approx(pause, rel=0.15)


def test_later_events_and_labels_change_nothing(tmp_path: Path) -> None:
    src, dst, time = random_events()
    wanted = timescales_in(tmp_path / "log", src, dst, time)
    first_val = split_log(EventLog(tmp_path / "log")).val.start
    later = time.copy()
    later[first_val + 1 :] = later[first_val] + 50 * (later[first_val + 1 :] - later[first_val])
    labels = np.random.default_rng(1).random(EVENTS)
    changed = write_log(tmp_path / "changed", src, dst, later, num_nodes=NODES, labels=labels)
    assert timescales_of(split_log(changed).train) == wanted


def test_a_log_that_runs_ten_times_as_slowly_fades_at_a_tenth_of_the_rates(tmp_path: Path) -> None:
    src, dst, time = random_events()
    rates = timescales_in(tmp_path / "log", src, dst, time)
    slower = timescales_in(tmp_path / "slower", src, dst, 10 * time)
    np.testing.assert_allclose(slower, np.array(rates) / 10, rtol=0.1)


def test_the_fast_one_is_never_near_the_slow_one(tmp_path: Path) -> None:
    """Each node has its events at the beginning and at the end alone, or one event, or all at one time."""
    node = np.arange(NODES, dtype=np.int32)
    twice = np.concatenate([node, node, node])
    time = np.repeat([0, 1000, 2000], NODES) + np.tile(np.arange(NODES), 3)
    slow, fast = timescales_in(tmp_path / "long-pauses", twice, np.roll(twice, 1), time)
    assert fast == pytest.approx(LEAST_RATIO * slow, rel=0.05)
    once = np.arange(0, 2 * EVENTS, 2, dtype=np.int32)
    log = write_log(tmp_path / "once", once, once + 1, np.arange(EVENTS))
    slow, fast = timescales_of(split_log(log).train)
    assert fast == pytest.approx(LEAST_RATIO * slow, rel=0.05)
    src, dst, _ = random_events()
    at_once = np.repeat([0, 1, 2], EVENTS // 3)
    at_once[: int(0.75 * EVENTS)] = 0
    at_once[int(0.75 * EVENTS) : int(0.9 * EVENTS)] = 1
    assert timescales_in(tmp_path / "at-once", src, dst, at_once) == (1e-6, 1e-4)


def test_rates_are_said_in_human_time() -> None:
    same_sentence(describe_rates((1.3e-7, 1.3e-5), 16_736_181))
    same_sentence(describe_rates((0.0,), 16_736_181))


@pytest.mark.parametrize("rates", [(1e-3,), (1e-5, 1e-3), (1e-9,), (1e-9, 1e-8)])
def test_rates_outside_what_the_paper_covers_are_remarked_on(rates: tuple[float, ...]) -> None:
    assert same_sentence(span_remark(rates, 3e7))


@pytest.mark.parametrize("rates", [(1e-6,), (1e-9, 1e-6), (1e-9, 1e-3), (0.0,), (0.0, 1e-6)])
def test_rates_that_reach_what_the_paper_covers_are_not(rates: tuple[float, ...]) -> None:
    assert not span_remark(rates, 3e7)
