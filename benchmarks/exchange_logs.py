"""Stretches of event logs small enough to be sent to the ranks: real ones, and a uniform random one."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from data_prep.synth_random import random_events
from tpnet_dist.config.schema import default_width
from tpnet_dist.events import EventColumns, EventLog

AVERAGE_DEGREE = 100
"""The average degree of the paper's random graphs: 1e6 edges have 2e4 nodes, and rows of width 140."""
EVENTS_PER_RANDOM_NODE = 25
"""Events per node before the first exchanged one, so many that nearly every node has 20 neighbours."""


@dataclass(frozen=True)
class Log:
    """Events in memory."""

    name: str
    num_nodes: int
    width: int
    first: int
    """The number of the first exchanged event; those before it are history for the neighbours."""
    src: Tensor
    dst: Tensor
    time: Tensor


def real_log(folder: Path, count: int) -> Log:
    """Read a log, of which the events about its middle are measured."""
    log = EventLog(folder)
    first = max(0, (len(log) - count) // 2)
    events = log.read(0, min(len(log), first + count))
    width = default_width(len(log), log.num_nodes)
    seconds = torch.from_numpy(log.seconds(events.time))
    src, dst = _ends(events)
    return Log(folder.name, log.num_nodes, width, first, src, dst, seconds)


def random_log(nodes: int, count: int) -> Log:
    first = EVENTS_PER_RANDOM_NODE * nodes
    chunks = list(random_events(events=first + count, nodes=nodes, seed=0))
    src, dst = (torch.cat(column) for column in zip(*map(_ends, chunks), strict=True))
    seconds = torch.from_numpy(np.concatenate([chunk.time for chunk in chunks])).double()
    width = default_width(nodes * AVERAGE_DEGREE // 2, nodes)
    return Log("random", nodes, width, first, src, dst, seconds)


def _ends(events: EventColumns) -> Iterator[Tensor]:
    return (torch.from_numpy(column.astype(np.int64)) for column in (events.src, events.dst))
