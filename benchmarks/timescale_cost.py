"""The part of `timescales` that takes their cost: bytes of a node, processor time of recording and training.

One, two and three timescales take turns in one process of one thread. What is taken is the processor's time,
since others may be at work on the machine.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from benchmarks.contestants import Trainer
from benchmarks.measuring import take_turns
from benchmarks.rank_pool import world_of_one
from benchmarks.recorder import HOPS, RUN_BATCHES, random_runs
from tpnet_dist.config.log_shape import LogShape
from tpnet_dist.config.schema import Config, DataConfig, MemoryConfig
from tpnet_dist.events.reader import EventLog
from tpnet_dist.memory.memory import Memory
from tpnet_dist.memory.walks import Walk
from tpnet_dist.sizing.memory_sizes import clock_bytes_of, memory_width, row_bytes_of

RATES = ((1e-6,), (1e-7, 1e-5), (1e-7, 1e-6, 1e-5))
"""The rates of 1, 2 and 3 timescales; which numbers they are costs nothing."""
BATCH_SIZE = 200
_EVENTS_OF_A_TURN = RUN_BATCHES * BATCH_SIZE


@dataclass(frozen=True)
class Cost:
    """The cost of a number of timescales."""

    timescales: int
    bytes_per_node: int
    recording_us: float
    """Processor time of an event."""
    training_ms: float
    """Processor time of a step of 200 events."""
    recording_ratio: float
    training_ratio: float
    """The ratio of training time to that with one timescale, median over turns."""


def measure_costs(folder: Path, edges: int, steps: int, turns: int) -> list[Cost]:
    """Measure recording of a random graph and training on the log, one timescale after the other in each
    turn."""
    torch.set_num_threads(1)
    recording = _seconds(turns, {len(rates): _recorder(edges, rates) for rates in RATES})
    configs = {
        len(rates): Config(data=DataConfig(folder=str(folder)), memory=MemoryConfig(decay=rates))
        for rates in RATES
    }
    with world_of_one() as world:
        trainers = {number: Trainer(config, world) for number, config in configs.items()}
        acts = {number: partial(trainer.learn, steps) for number, trainer in trainers.items()}
        training = _seconds(turns, acts)
    log = EventLog(folder)
    return [
        Cost(
            timescales=number,
            bytes_per_node=row_bytes_of(config, log) + clock_bytes_of(config.memory),
            recording_us=1e6 * statistics.median(recording[number]) / _EVENTS_OF_A_TURN,
            training_ms=1e3 * statistics.median(training[number]) / steps,
            recording_ratio=_ratio(recording, number),
            training_ratio=_ratio(training, number),
        )
        for number, config in configs.items()
    ]


def _recorder(edges: int, rates: tuple[float, ...]) -> Callable[[], object]:
    """Return a function that records a run of batches at each call."""
    log = LogShape.random(edges)
    memory = Memory(log.num_nodes, Walk("decay", HOPS, rates), memory_width(MemoryConfig(), log))
    runs = random_runs(log.num_nodes, BATCH_SIZE, RUN_BATCHES)

    def record() -> None:
        run = next(runs)
        memory.catch_up([run], run.num_events)

    return record


def _seconds(turns: int, acts: Mapping[int, Callable[[], object]]) -> dict[int, list[float]]:
    """Return the seconds of processor time of each act, turn by turn."""

    def timed(act: Callable[[], object]) -> float:
        started = time.process_time()
        act()
        return time.process_time() - started

    return take_turns({number: partial(timed, act) for number, act in acts.items()}, turns=turns)


def _ratio(seconds: dict[int, list[float]], number: int) -> float:
    return statistics.median(mine / one for mine, one in zip(seconds[number], seconds[1], strict=True))
