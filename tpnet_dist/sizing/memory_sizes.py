"""Sizes that follow from settings and a log alone: of rows, clocks, a batch, a step."""

from typing import Protocol

import torch

from tpnet_dist.config.schema import Config, MemoryConfig, default_width
from tpnet_dist.memory.walks import Walk
from tpnet_dist.models.registry import needs_of, spec_of
from tpnet_dist.models.spec import weight_dtype
from tpnet_dist.neighbors.index import BYTES_PER_ENTRY
from tpnet_dist.neighbors.interval_weights import BYTES_PER_WEIGHT
from tpnet_dist.neighbors.samplers import WEIGHTED_SAMPLING

FLOAT_BYTES = 4
_CLOCK_BYTES = 8
_SLOT_BYTES = 32
"""Bytes of a borrowed row, beside its layers and clock: whose it is, how much of it is right, where it is
found."""


class LogSize(Protocol):
    """The size of a log that exists, or of one that is only planned."""

    @property
    def num_nodes(self) -> int: ...
    def __len__(self) -> int: ...


def slots_of(config: Config, events: int) -> int:
    """Return the number of nodes of so many training events: two ends, a negative, and the neighbours of
    each."""
    return events * 3 * (1 + needs_of(config).neighbors)


def step_bytes_of(config: Config, log: LogSize, num_ranks: int) -> int:
    """Return the least memory that a rank works with in a training step: the rows of neighbours, slot by slot
    and once more in the order of their products, and what the model keeps. Other layers come on top. For
    ranks with uneven slices this is the mean, since those of a host share its memory."""
    events, spec = -(-config.training.batch_size // num_ranks), spec_of(config)
    needs = spec.needs(config)
    row = row_bytes_of(config, log) if needs.rows else 0
    rows = 2 * 3 * events * needs.neighbors * row
    number = {"bfloat16": 2, "float64": 8}.get(config.training.precision, FLOAT_BYTES)
    return rows + events * spec.kept_numbers(config) * number


def neighbor_bytes_of(config: Config, num_events: int, num_train_events: int, num_ranks: int) -> int:
    """Return the bytes of a rank's part of both indexes: of all events, and of those that training sees."""
    is_weighted = needs_of(config).sampling == WEIGHTED_SAMPLING
    bytes_per_entry = BYTES_PER_ENTRY + is_weighted * BYTES_PER_WEIGHT
    return bytes_per_entry * 2 * (num_events + num_train_events) // num_ranks


def row_bytes_of(config: Config, log: LogSize) -> int:
    """Return the bytes of one node's row."""
    return config.memory.layers * memory_width(config.memory, log) * weight_dtype(config).itemsize


def wire_dtype(config: Config) -> torch.dtype:
    """Return the type of rows on their way: as they are, unless they are to be rounded."""
    wanted: torch.dtype = getattr(torch, config.memory.exchange_dtype)
    return weight_dtype(config) if wanted == torch.float32 else wanted


def borrowed_bytes_of(config: Config, log: LogSize) -> int:
    """Return the bytes of a copy of another rank's row."""
    return row_bytes_of(config, log) + clock_bytes_of(config.memory) + _SLOT_BYTES


def clock_bytes_of(settings: MemoryConfig) -> int:
    """Return the bytes of one row's clock, and of its degree where the walk divides by it."""
    return _CLOCK_BYTES * (1 + walk_of(settings).keeps_degree)


def walk_of(settings: MemoryConfig) -> Walk:
    return Walk(settings.walk, settings.hops, settings.rates)


def memory_width(settings: MemoryConfig, log: LogSize) -> int:
    return settings.width or default_width(len(log), log.num_nodes)


def memory_nodes(config: Config, log: LogSize) -> int:
    return log.num_nodes + (padding_node_of(config, log) is not None)


def padding_node_of(config: Config, log: LogSize) -> int | None:
    """Return the node that the released code has for empty neighbour slots; here it comes after all
    others."""
    return log.num_nodes if needs_of(config).padding_node else None
